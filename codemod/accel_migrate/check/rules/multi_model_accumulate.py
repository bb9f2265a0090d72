"""More models are stepped than `accumulate()` was given: the others exchange their gradients in every micro-batch."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity
from accel_migrate.facts.values import Box, Role
from accel_migrate.quoting import quote

ID = "multi-model-accumulate"
TITLE = "accumulate() is given fewer models than are trained inside it"
SEVERITY = Severity.INFO
LIBRARIES = frozenset({"accelerate"})


def check(program: Program) -> Iterator[Alarm]:
    trained = program.prepared_sites(Role.MODEL) & program.facts.trained_models()
    blocks: dict[ast.With, list[ast.Call]] = defaultdict(list)
    for call in program.calls_of("accumulate"):
        block = program.facts.parents.get(program.facts.parents.get(call))  # type: ignore[arg-type]
        if isinstance(block, ast.With):
            blocks[block].append(call)
    for block, calls in blocks.items():
        if len(calls) > 1:
            models = ", ".join(quote(a) for c in calls for a in c.args)
            message = "each `accumulate()` counts the micro-batch: two of them count each twice, and with an even `gradient_accumulation_steps` the optimizer steps twice as often as asked for"
            yield Alarm(calls[1], message, f"one for all of them: accelerator.accumulate({models})", severity=Severity.ERROR)
        else:
            yield from _missing(program, block, calls[0], trained)


def _missing(program: Program, block: ast.With, call: ast.Call, trained: set[ast.AST]) -> Iterator[Alarm]:
    """The first model that is trained in `block` and that `call` was not given."""
    given = {site for argument in call.args for site in program.sites(argument)}
    if not given or any(isinstance(a, ast.Starred) or any(isinstance(v, Box) for v in program.facts.of(a)) for a in call.args):
        return  # a list of models
    for inner in ast.walk(block):
        if isinstance(inner, ast.Call) and program.is_prepared_model(inner.func) and not program.is_without_gradients(inner):
            sites = program.sites(inner.func)
            if (sites & trained) - given and not sites & given:
                yield Alarm(
                    call,
                    f"`{quote(inner.func)}` is trained inside, too: it exchanges its gradients in every micro-batch, which only costs time",
                    f"accelerator.accumulate({', '.join(map(quote, call.args))}, {quote(inner.func)})",
                )
                return
