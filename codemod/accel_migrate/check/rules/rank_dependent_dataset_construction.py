"""A data set that is split or shuffled after each process was given a seed of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity
from accel_migrate.quoting import quote

ID = "rank-dependent-dataset-construction"
TITLE = "The data set is split or shuffled differently on each process"
SEVERITY = Severity.ERROR

_SPLITTING = {
    "torch.utils.data.random_split",
    "torch.randperm",
    "random.shuffle",
    "random.sample",
    "numpy.random.permutation",
    "numpy.random.shuffle",
    "sklearn.model_selection.train_test_split",
}
_SEEDING = {"set_seed", "manual_seed", "seed", "seed_everything"}
_OWN = {"generator", "random_state"}


def check(program: Program) -> Iterator[Alarm]:
    seeds = [
        call
        for _, call in program.facts.nodes(ast.Call)
        if isinstance(call, ast.Call) and program.method(call) in _SEEDING and _is_ranked(program, call)
    ]
    for call, name in program.facts.external.items():
        if (
            name not in _SPLITTING
            or any(k.arg in _OWN for k in call.keywords)
            or program.loop_over(call) is not None
            or program.training_loop(call) is not None
            or _is_shared(program, call)
        ):
            continue
        before = [
            s
            for s in seeds
            if program.facts.function(s) is program.facts.function(call)
            and s.lineno < call.lineno
            and not _seeded_between(program, s, call)
        ]
        if before:
            yield Alarm(
                call,
                f"`{quote(call)}` draws from a stream that line {before[-1].lineno} seeds differently on each process: training and validation samples mix, and the processes number the samples differently",
                "split with a seed that all share (generator=torch.Generator().manual_seed(0)), or seed by rank only afterwards",
            )


def _is_ranked(program: Program, call: ast.Call) -> bool:
    if any(
        k.arg == "device_specific" and isinstance(k.value, ast.Constant) and k.value.value is True
        for k in call.keywords
    ):
        return True
    return any(
        isinstance(n, ast.Attribute) and n.attr in {"process_index", "local_process_index"}
        for a in call.args
        for n in program.flow.origins(a)
    )


def _is_shared(program: Program, call: ast.Call) -> bool:
    """Whether one process hands what it drew to all others."""
    sent = [c for c, name in program.reach.collectives.items() if "broadcast" in name and program.facts.function(c) is program.facts.function(call)]
    return any(c.lineno > call.lineno and program.flow.reaches(call, *c.args) for c in sent)


def _seeded_between(program: Program, first: ast.Call, last: ast.Call) -> bool:
    """Whether another seed, the same on all processes, is set in between."""
    for _, call in program.facts.nodes(ast.Call):
        assert isinstance(call, ast.Call)
        same = program.facts.function(call) is program.facts.function(last)
        if (
            same
            and first.lineno < call.lineno < last.lineno
            and program.method(call) in _SEEDING
            and not _is_ranked(program, call)
        ):
            return True
    return False
