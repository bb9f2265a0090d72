"""Backward passes and optimizer steps once for each row, or for each part that a collate function made of a batch: a finding.

How often they run depends on how many rows a process has: on N processes there are fewer of them, each over more rows.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding, Severity
from accel_migrate.facts.classes import find_method
from accel_migrate.facts.row_loops import THROUGH
from accel_migrate.facts.values import Function, Instance, Made, Role, Value, locals_of
from accel_migrate.quoting import quote

ID = "row-steps"
TITLE = "Find optimizer steps in loops over the rows or parts of a process's batch"
WHY = "the number of steps depends on the number of rows"


def apply(context: Context) -> Iterator[Edit | Finding]:
    if context.distributed:
        return
    made_of_parts = {loop for _, loop in context.facts.nodes(ast.For) if _runs_over_parts(context, loop)}
    seen: set[ast.AST] = set()
    for call in (*context.facts.backwards, *_steps(context)):
        loop = context.row_loops.around(call) or next((a for a in _around(context, call) if a in made_of_parts), None)
        if loop is not None and loop not in seen:
            seen.add(loop)
            yield _finding(context, call, loop in made_of_parts)


def _steps(context: Context) -> Iterator[ast.Call]:
    roles = {Role.OPTIMIZER}
    yield from (c for c, (base, name) in context.facts.methods.items() if name == "step" and any(context.facts.role(v) in roles for v in base))


def _around(context: Context, call: ast.Call) -> Iterator[ast.AST]:
    """The loops around `call`, in its function and in the one that calls that."""
    yield from context.facts.ancestors(call)
    for caller in context.facts.callers.get(context.facts.function(call), ()):  # type: ignore[call-overload]
        yield from context.facts.ancestors(caller)


def _runs_over_parts(context: Context, loop: ast.AST) -> bool:
    """Whether `loop` runs over a whole batch that a function of the program put together, and not by a fixed number of parts."""
    assert isinstance(loop, ast.For)
    iterated = _unwrapped(loop.iter)
    if loop in context.facts.loops or not any(v.batch for v in locals_of(context.facts.of(iterated))):
        return False
    return any(not _has_fields(context, value) for value in _collators(context, iterated))


def _unwrapped(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Call) and node.args and ast.unparse(node.func).rpartition(".")[2] in THROUGH - {"zip"}:
        node = node.args[0]
    return node


def _collators(context: Context, batch: ast.expr) -> Iterator[Value]:
    """What the loaders of `batch` were given as their collate_fn, as far as it is the program's."""
    loops = [a for a in context.facts.ancestors(batch) if a in context.facts.loops]
    loaders = context.facts.loops[loops[0]].loaders if loops else ()  # type: ignore[index]
    for loader in loaders:
        site = loader.site if isinstance(loader, Made) else None
        given = [k.value for k in site.keywords if k.arg == "collate_fn"] if isinstance(site, ast.Call) else []
        yield from (v for node in given for v in context.facts.of(node) if isinstance(v, Function | Instance))


def _has_fields(context: Context, collate: Value) -> bool:
    """Whether a collate function returns a display, which has as many entries for any number of samples."""
    body = collate.node if isinstance(collate, Function) else find_method(context.facts, collate.cls.node, "__call__")  # type: ignore[union-attr]
    if isinstance(body, ast.Lambda):
        return not isinstance(body.body, ast.ListComp)
    returned = [n.value for n in ast.walk(body) if isinstance(n, ast.Return) and n.value is not None] if body is not None else []
    return not any(isinstance(value, ast.ListComp) or _is_filled(context, value, body) for value in returned)  # type: ignore[arg-type]


def _is_filled(context: Context, value: ast.expr, body: ast.AST) -> bool:
    """Whether `value` is a list that a loop of `body` fills."""
    loops = [n for n in ast.walk(body) if isinstance(n, ast.For | ast.While)]
    calls = (n.func for loop in loops for n in ast.walk(loop) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute))
    return isinstance(value, ast.Name) and any(f.attr in {"append", "extend"} and ast.unparse(f.value) == value.id for f in calls)


def _finding(context: Context, call: ast.Call, parts: bool) -> Finding:
    each = "each part that the collate function makes of this process's samples" if parts else "each of this process's rows"
    return Finding(
        source=context.source(call), node=call, rule=ID, severity=Severity.ERROR,
        message=f"`{quote(call)}` runs once for {each}: on N processes there are N times fewer of them, each over N times as many rows",
        advice="let the loader make batches of that size, and take one step for each of them",
    )  # fmt: skip
