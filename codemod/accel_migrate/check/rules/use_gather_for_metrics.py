"""`gather` in an evaluation: it keeps the samples that were repeated to make the last batch even."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm, Fix
from accel_migrate.check.program import Program
from accel_migrate.edits import ReplaceExpression, Severity
from accel_migrate.facts.facts import Loop
from accel_migrate.facts.operations import spreads
from accel_migrate.facts.values import Made, Prepared, Spread

ID = "use-gather-for-metrics"
TITLE = "gather() counts repeated samples; gather_for_metrics() drops them"
SEVERITY = Severity.WARNING

_FIGURES = {Spread.MEAN, Spread.SUM, Spread.COUNT, Spread.RATE, Spread.RATIO}
_REPEATING = {"repeat", "expand", "repeat_interleave"}
"""Methods that make a row for each sample of one figure."""


def check(program: Program) -> Iterator[Alarm]:
    for call in program.calls_of("gather"):
        loop = program.loop_over(call)
        if (
            loop is None
            or loop.trains
            or not any(isinstance(v, Prepared) for v in loop.loaders)
        ):
            continue
        if (
            not call.args
            or not any(program.facts.is_local(n) for n in ast.walk(call.args[0]))
            or _drops_last(loop)
            or _cuts_by_hand(program, loop)
            or not _has_rows(program, call.args[0])
            or _is_unused(program, call, loop.node)
        ):
            continue
        edit = ReplaceExpression(
            source=program.source(call),
            rule=ID,
            node=call.func,
            template="{own}.gather_for_metrics",
            parts={"own": call.func.value},
        )  # type: ignore[attr-defined]
        yield Alarm(
            call,
            "where the samples do not divide evenly some are repeated in the last batch, and counted twice: more rows than there are samples",
            "accelerator.gather_for_metrics(...), which drops the repeated ones",
            Fix((edit,)),
        )


def _has_rows(program: Program, value: ast.expr) -> bool:
    """Whether a row of each sample is gathered, and not one figure of each process."""
    if isinstance(value, ast.Tuple | ast.List):
        return any(_has_rows(program, element) for element in value.elts)
    if isinstance(value, ast.Call) and program.method(value) in _REPEATING:
        return True
    found = spreads(program.facts.of(value))
    return bool(found & {Spread.SHARD, Spread.ROW}) if found & _FIGURES or "loss" in ast.unparse(value).lower() else True


def _is_unused(program: Program, call: ast.Call, loop: ast.AST) -> bool:
    """Whether nothing in or below the loop reads the variable that gets what is gathered."""
    statement = program.facts.statement(call)
    if isinstance(statement, ast.Expr):
        return statement.value is call
    target = statement.targets[0] if isinstance(statement, ast.Assign) and statement.value is call else None
    if not isinstance(target, ast.Name):
        return False
    names = (n for n in ast.walk(program.facts.function(call)) if isinstance(n, ast.Name) and n.id == target.id)
    return not any(isinstance(n.ctx, ast.Load) and n.lineno >= loop.lineno for n in names)  # type: ignore[attr-defined]


def _drops_last(loop: Loop) -> bool:
    sites = [v.site for v in loop.loaders if isinstance(v, Made) and isinstance(v.site, ast.Call)]
    return any(
        k.arg == "drop_last" and isinstance(k.value, ast.Constant) and k.value.value is True
        for site in sites
        for k in site.keywords
    )


def _cuts_by_hand(program: Program, loop: Loop) -> bool:
    """Whether the script drops the repeated samples itself: `predictions[: len(dataset) - seen]`."""
    function = program.facts.function(loop.node)
    return any(
        isinstance(n, ast.Subscript)
        and isinstance(n.slice, ast.Slice)
        and n.slice.upper is not None
        and "len(" in ast.unparse(n.slice.upper)
        for n in ast.walk(function)
    )
