"""Schedulers that step after a state is saved: what stands there in that epoch is not repeated by the run that goes on."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.facts.values import Role
from accel_migrate.states.saved import Saved

_DEPTH = 3


def late_ticks(context: Context, saved: Saved) -> Iterator[ast.Call]:
    """The calls of `scheduler.step()` that follow the save in its epoch."""
    yield from _behind(context, context.facts.statement(saved.call), _DEPTH)


def _behind(context: Context, statement: ast.stmt, depth: int) -> Iterator[ast.Call]:
    facts = context.facts
    while isinstance(statement, ast.stmt):
        block = facts.block(statement)
        for later in block[block.index(statement) + 1 :]:
            yield from (n for n in ast.walk(later) if isinstance(n, ast.Call) and _ticks(context, n))
        parent = facts.parents[statement]
        if isinstance(parent, ast.For | ast.While):
            return  # an epoch's end, or a step's
        if isinstance(parent, ast.FunctionDef):
            for call in facts.callers.get(parent, {}) if depth else ():
                yield from _behind(context, facts.statement(call), depth - 1)
            return
        statement = parent  # type: ignore[assignment]


def _ticks(context: Context, call: ast.Call) -> bool:
    base, name = context.facts.methods.get(call, (frozenset(), ""))
    return name == "step" and any(context.facts.role(v) in {Role.SCHEDULER, Role.METRIC_SCHEDULER} for v in base)
