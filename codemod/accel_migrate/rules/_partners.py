"""Whether the partners of the rows of a batch can be taken from the whole batch; otherwise they are reported."""

from __future__ import annotations

import ast

from accel_migrate.context import Context
from accel_migrate.facts.permuted import taken_by, turned
from accel_migrate.selection import is_wanted

RULE = "partner-rows"


def followed(context: Context, order: ast.Call) -> list[ast.expr] | None:
    """The rows that `order` picks from, all of which can be gathered where it does; None where some cannot."""
    rows = taken_by(context.facts, order) if _can_gather(context) else None
    if rows is None or any(context.row_loops.around(node) is not None for node in (order, *rows)):
        return None
    return rows


def is_turned(context: Context, node: ast.AST) -> bool:
    """Whether `node` turns rows of a batch that trains round, where they can be gathered."""
    if not _can_gather(context) or turned(context.facts, node) is None or context.row_loops.around(node) is not None:
        return False
    facts = context.facts
    shown = any(facts.inside(node, c.value) for c in facts.conversions.values())
    return not shown and not context.in_model(node)


def _can_gather(context: Context) -> bool:
    return context.dialect.exact and is_wanted(RULE, context.options)
