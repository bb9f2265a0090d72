"""Figures of the last batch that are computed when its loop is over."""

from __future__ import annotations

import ast

from accel_migrate.context import Context
from accel_migrate.facts.values import Spread


def rows_behind_loop(context: Context, value: ast.expr) -> str | None:
    """`y` of `error_rate(out, y)` below the loop over the batches: the rows over which `value` is a mean, where only they tell.

    In the loop, and from the graph of a loss, the runtime knows the batch; below it a number without a graph could as well
    be one of the whole pass.
    """
    if any(v.grad or any(_contains(context, node, value) for node in v.taken) or not v.taken for v in context.locals(value)):
        return None
    names = [n for n in ast.walk(value) if isinstance(n, ast.Name) and _are_rows(context, n)]
    return max(names, key=lambda n: (n.lineno, n.col_offset)).id if names else None


def _contains(context: Context, taken: ast.AST, value: ast.expr) -> bool:
    return not isinstance(taken, ast.For | ast.While | ast.AsyncFor) or context.facts.inside(value, taken)


def _are_rows(context: Context, name: ast.Name) -> bool:
    found = context.locals(name)
    return bool(found) and all(v.spread is Spread.SHARD and v.axis == 0 and not v.blocks and v.mask is None and not v.joined and not v.batch and not v.output for v in found)
