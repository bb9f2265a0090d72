"""`loss.backward()` in a script that is accelerated otherwise."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm, Fix
from accel_migrate.check.program import Program
from accel_migrate.edits import ReplaceExpression, Severity
from accel_migrate.quoting import quote

ID = "raw-backward"
TITLE = "loss.backward() instead of accelerator.backward(loss)"
SEVERITY = Severity.ERROR


def check(program: Program) -> Iterator[Alarm]:
    if not program.preparations:
        return
    own = set(program.calls_of("backward"))
    for call, backward in program.facts.backwards.items():
        if (
            call in own
            or not isinstance(call.func, ast.Attribute)
            or program.is_accelerator(call.func.value)
            or _is_private(program, call)
        ):
            continue
        if backward.scaled or not (backward.with_loader or _is_of_prepared(program, backward.loss)):
            continue  # a scaler is another rule's; a pass without data is no training step
        yield Alarm(
            call,
            f"`{quote(call)}` knows nothing of gradient accumulation, loss scaling, DeepSpeed, or of each process's share of the batch",
            f"accelerator.backward({quote(backward.loss)})",
            _fix(program, call, backward.loss),
        )


def _is_of_prepared(program: Program, loss: ast.expr) -> bool:
    """Whether `loss` is made of what a prepared model returned; the loader may come from code that is not seen."""
    return any(isinstance(n, ast.Call) and program.is_prepared_model(n.func) for n in program.flow.origins(loss))


def _is_private(program: Program, call: ast.Call) -> bool:
    """Whether only models of a loop without prepared objects are trained there, such as a probe of one process."""
    return not any(program.is_prepared(n) for n in ast.walk(program.facts.function(call)) if isinstance(n, ast.expr))


def _fix(program: Program, call: ast.Call, loss: ast.expr) -> Fix | None:
    name = _name(program, call)
    if name is None or call.args or call.keywords:
        return None
    edit = ReplaceExpression(
        source=program.source(call), rule=ID, node=call, template=f"{name}.backward({{loss}})", parts={"loss": loss}
    )
    return Fix((edit,))


def _name(program: Program, call: ast.Call) -> str | None:
    """How the accelerator is called in the function of `call`."""
    function = program.facts.function(call)
    for other in program.accelerator_calls:
        if program.facts.function(other) is function and isinstance(other.func, ast.Attribute):
            return ast.unparse(other.func.value)
    return None
