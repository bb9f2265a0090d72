"""Noise that is drawn in the training step from one seed: all processes draw the same."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.check.rules.rank_dependent_dataset_construction import _is_ranked
from accel_migrate.edits import Severity
from accel_migrate.facts.catalog import RANDOM_DRAWS, RANDOM_LIKES
from accel_migrate.quoting import quote

ID = "rank-identical-randomness"
TITLE = "All processes draw the same random numbers in the training step"
SEVERITY = Severity.INFO

_SEEDING = {"set_seed", "manual_seed", "seed_everything"}


def check(program: Program) -> Iterator[Alarm]:
    seeds = [
        call
        for _, call in program.facts.nodes(ast.Call)
        if isinstance(call, ast.Call) and program.method(call) in _SEEDING
    ]
    if not seeds or any(_is_ranked(program, call) for call in seeds) or not program.preparations:
        return
    seen: set[ast.AST] = set()
    for call, name in program.facts.external.items():
        if name not in RANDOM_DRAWS | RANDOM_LIKES or any(k.arg == "generator" for k in call.keywords):
            continue
        if any(
            isinstance(n, ast.Attribute) and n.attr in {"process_index", "num_processes"}
            for n in ast.walk(program.facts.statement(call))
        ):
            continue  # drawn for the whole batch, and cut
        loop = program.training_loop(call)
        losses = [
            c.args[0]
            for c in program.calls_of("backward")
            if c.args and loop is not None and program.facts.inside(c, loop)
        ]
        if loop is None or loop in seen or not program.flow.reaches(call, *losses):
            continue
        seen.add(loop)
        ours = program.library == "accel_runtime"
        yield Alarm(
            call,
            f"line {seeds[0].lineno} gives all processes one seed: `{quote(call)}` is the same on each of them, so a global batch has 1/N of the variety",
            "accelerator.draw(torch.randn, len(x), ...) draws for the whole batch and cuts"
            if ours
            else "once model and data are made: set_seed(seed, device_specific=True)",
        )
