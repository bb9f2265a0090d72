"""Figures of one process's share of the evaluation data, taken for those of all."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity
from accel_migrate.facts.facts import Conversion
from accel_migrate.facts.values import Made, Prepared, Role
from accel_migrate.quoting import quote

ID = "metric-without-gather"
TITLE = "A metric is computed from one process's share of the data"
SEVERITY = Severity.WARNING

_SHOWING = {
    "print",
    "log",
    "info",
    "warning",
    "add_scalar",
    "add_scalars",
    "set_postfix",
    "set_description",
    "write",
    "append",
    "save",
    "dump",
    "format",
    "update",
}
_SCORING = ("sklearn.", "evaluate.")


def check(program: Program) -> Iterator[Alarm]:
    seen: set[ast.AST] = set()
    for conversion in program.facts.conversions.values():
        loop = _evaluation_loop(program, conversion.value)
        if (
            loop is None
            or loop in seen
            or _is_scaled(program, conversion)
            or _is_replaced(program, conversion.value)
            or _is_abstract(program, conversion.value)
            or program.ranks.is_guarded(conversion.value)
            or not _is_shown(program, conversion, loop)
        ):
            continue
        seen.add(loop)
        yield Alarm(
            conversion.statement or conversion.value,
            f"`{quote(conversion.value)}` is of this process's share of the samples: what is shown, compared or returned is 1/N of the evaluation, and another number on each process",
            "gather first, in the loop and on all processes: predictions, targets = accelerator.gather_for_metrics((predictions, targets))",
        )


def _is_scaled(program: Program, conversion: Conversion) -> bool:
    """Whether the figure is made that of all processes by their number: `accelerator.num_processes * len(x)`."""
    statement = conversion.statement
    return statement is not None and any(
        isinstance(n, ast.Attribute) and n.attr == "num_processes" for n in ast.walk(statement)
    )


def _is_replaced(program: Program, value: ast.expr) -> bool:
    """Whether `value` is an element of something whose elements are replaced by what all processes have."""
    while isinstance(value, ast.Subscript | ast.Attribute):
        value = value.value
        key = program.flow.key(value)
        if key is not None and any(program.is_gathered(v) for v in program.flow.assigned.get(key, ())):
            return True
    return False


def _is_abstract(program: Program, value: ast.expr) -> bool:
    """Whether `value` is handed to a method that only a subclass writes: what comes out of it is not known."""
    call = program.facts.parents.get(value)
    callees = program.facts.callees.get(call, set()) if isinstance(call, ast.Call) else set()
    bodies = [f.body for f in callees if isinstance(f.body, list)]
    return bool(bodies) and all(isinstance(s, ast.Pass | ast.Raise) or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)) for body in bodies for s in body)


def _evaluation_loop(program: Program, node: ast.AST) -> ast.AST | None:
    """The loop over a prepared loader around `node` in which nothing is trained."""
    loop = program.loop_over(node)
    if (
        loop is None
        or loop.trains
        or not any(isinstance(v, Prepared) for v in loop.loaders)
    ):
        return None
    return loop.node


def _is_shown(program: Program, conversion: Conversion, loop: ast.AST) -> bool:
    """Whether the figure is used after the loop without being gathered there."""
    statement = conversion.statement
    if conversion.how in {"print", "test"} or statement is None:
        return False
    if conversion.how == "collect" and _is_metric(program, conversion):
        return True
    function = program.facts.function(conversion.value)
    for node in ast.walk(function):
        if not isinstance(node, ast.expr) or program.facts.inside(node, loop) or node.lineno < loop.lineno:  # type: ignore[attr-defined]
            continue
        if _is_use(program, node) and any(n is conversion.value for n in _parts(program, node)):
            return True
    return False


def _is_metric(program: Program, conversion: Conversion) -> bool:
    """Whether rows are handed to a metric that knows nothing of processes; torchmetrics gathers by itself."""
    call = program.facts.parents.get(conversion.value)
    call = program.facts.parents.get(call) if isinstance(call, ast.keyword) else call  # type: ignore[arg-type]
    if (
        not isinstance(call, ast.Call)
        or not isinstance(call.func, ast.Attribute)
        or call.func.attr not in {"add_batch", "add"}
    ):
        return False
    makers = [v.site for v in program.facts.of(call.func.value) if isinstance(v, Made) and v.role is Role.OBJECT]
    return any(isinstance(m, ast.Call) and program.facts.external.get(m, "").startswith(_SCORING) for m in makers)


def _is_use(program: Program, node: ast.expr) -> bool:
    parent = program.facts.parents.get(node)
    if isinstance(parent, ast.Return | ast.FormattedValue) or isinstance(node, ast.Compare):
        return True
    if isinstance(parent, ast.keyword):
        parent = program.facts.parents.get(parent)
    if isinstance(parent, ast.Call) and node is not parent.func:
        return program.method(parent) in _SHOWING or program.facts.external.get(parent, "").startswith(_SCORING)
    return False


def _parts(program: Program, node: ast.expr) -> Iterator[ast.AST]:
    return program.flow.origins(node, stop=program.is_gathered)
