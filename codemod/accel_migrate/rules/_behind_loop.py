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
    found = context.locals(value)
    if not found or any(v.grad or not v.taken or not all(_is_over(context, node, value) for node in v.taken) for v in found):
        return None
    names = [n for n in ast.walk(value) if isinstance(n, ast.Name) and _are_rows(context, n)]
    return max(names, key=lambda n: (n.lineno, n.col_offset)).id if names else None


def _is_over(context: Context, taken: ast.AST, value: ast.expr) -> bool:
    """Whether `value` stands below the loop over these batches, in the same function."""
    loop = taken if isinstance(taken, ast.For | ast.AsyncFor) else context.facts.statement(taken)
    if not isinstance(loop, ast.For | ast.AsyncFor) or context.facts.function(loop) is not context.facts.function(value):
        return False
    return not context.facts.inside(value, loop) and value.lineno > (loop.end_lineno or 0)


def _are_rows(context: Context, name: ast.Name) -> bool:
    found = context.locals(name)
    return bool(found) and all(v.spread is Spread.SHARD and v.axis == 0 and not v.blocks and v.mask is None and not v.joined and not v.batch and not v.output for v in found)
