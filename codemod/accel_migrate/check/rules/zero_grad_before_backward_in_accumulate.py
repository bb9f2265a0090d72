"""`zero_grad()` first inside `accumulate()`: in Accelerate it runs in the step that synchronises, and wipes what was accumulated."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm, Fix
from accel_migrate.check.program import Program
from accel_migrate.edits import DeleteStatement, InsertAfter, Severity
from accel_migrate.facts.values import Role

ID = "zero-grad-before-backward-in-accumulate"
TITLE = "zero_grad() before backward() inside accumulate() throws the accumulated gradients away"
SEVERITY = Severity.ERROR
LIBRARIES = frozenset({"accelerate"})


def check(program: Program) -> Iterator[Alarm]:
    for _, call in program.facts.nodes(ast.Call):
        assert isinstance(call, ast.Call)
        block = program.accumulation(call)
        if block is None or program.method(call) != "zero_grad" or program.is_under(call, "sync_gradients") or _is_given_up(program, call, block):
            continue
        passes = [c for c in program.calls_of("backward") if program.accumulation(c) is block]
        steps = [c for c in _steps(program, block) if c.lineno > call.lineno]
        if any(c.lineno > call.lineno for c in passes) and not any(c.lineno < call.lineno for c in passes):
            yield Alarm(
                call,
                "in the micro-batch that steps it wipes the gradients of all micro-batches before: only the last one counts, on any number of processes",
                "call `zero_grad()` after `optimizer.step()`, or above the `with`",
                _fix(program, call, steps),
            )


def _is_given_up(program: Program, call: ast.Call, block: ast.With) -> bool:
    """Whether the micro-batch ends where `call` stands: `zero_grad()`, then `continue`."""
    statement = program.facts.statement(call)
    if statement in block.body:
        return False
    return isinstance(program.facts.block(statement)[-1], ast.Continue | ast.Break | ast.Return | ast.Raise)


def _steps(program: Program, block: ast.With) -> list[ast.Call]:
    calls = (n for n in ast.walk(block) if isinstance(n, ast.Call) and program.method(n) == "step")
    return [
        c
        for c in calls
        if isinstance(c.func, ast.Attribute)
        and not program.facts.has_role(c.func.value, Role.SCHEDULER, Role.METRIC_SCHEDULER)
    ]


def _fix(program: Program, call: ast.Call, steps: list[ast.Call]) -> Fix | None:
    """Moves the statement below the step of the same optimizer."""
    statement = program.facts.statement(call)
    same = [
        c
        for c in steps
        if isinstance(c.func, ast.Attribute)
        and isinstance(call.func, ast.Attribute)
        and ast.dump(c.func.value) == ast.dump(call.func.value)
    ]
    if (
        len(same) != 1
        or not isinstance(statement, ast.Expr)
        or program.facts.block(program.facts.statement(same[0])) is not program.facts.block(statement)
    ):
        return None
    source, step = program.source(call), program.facts.statement(same[0])
    moved = InsertAfter(source=source, rule=ID, node=step, template=ast.unparse(statement))
    return Fix((DeleteStatement(source=source, rule=ID, node=statement), moved))
