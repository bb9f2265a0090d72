"""More models are stepped than `accumulate()` was given: the others exchange their gradients in every micro-batch."""

from __future__ import annotations

import ast
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
    for call in program.calls_of("accumulate"):
        block = program.facts.parents.get(program.facts.parents.get(call))  # type: ignore[arg-type]
        if not isinstance(block, ast.With) or not call.args or any(isinstance(a, ast.Starred) for a in call.args):
            continue
        given = {site for argument in call.args for site in program.sites(argument)}
        if any(isinstance(v, Box) for argument in call.args for v in program.facts.of(argument)):
            continue  # a list of models
        for inner in ast.walk(block):
            if (
                isinstance(inner, ast.Call)
                and program.is_prepared_model(inner.func)
                and not program.is_without_gradients(inner)
            ):
                missing = (program.sites(inner.func) & trained) - given
                if missing and not program.sites(inner.func) & given and given:
                    yield Alarm(
                        call,
                        f"`{quote(inner.func)}` is trained inside, too: it exchanges its gradients in every micro-batch, which only costs time",
                        f"accelerator.accumulate({', '.join(map(quote, call.args))}, {quote(inner.func)})",
                    )
                    break
