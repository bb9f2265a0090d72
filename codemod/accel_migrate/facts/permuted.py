"""Rows that take other rows of their batch as partners, by a drawn order or from the other end: mixup, CutMix.

The partners are those of one process if they are taken from the whole batch. That is possible where each use of the order
is an index of rows without gradient.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.facts import axes, catalog
from accel_migrate.facts.facts import Facts
from accel_migrate.facts.values import Local, Spread, locals_of

MOVES = {"to", "cuda", "cpu", "long", "clone"}
"""Methods after which an order is still one."""


def orders(facts: Facts) -> Iterator[ast.Call]:
    """Calls that draw an order of a batch's rows."""
    return (
        call
        for call, name in facts.external.items()
        if name in catalog.BATCH_PERMUTATIONS and any(v.order is call for v in locals_of(facts.of(call)))
    )


def taken_by(facts: Facts, order: ast.Call) -> list[ast.expr] | None:
    """The rows of which `order` picks partners; None where it is used for something else, or gradients flow through them."""
    found: list[ast.expr] = []
    for node in [node for node, values in facts.values.items() if any(v.order is order for v in locals_of(values))]:
        if not isinstance(node, ast.expr) or isinstance(getattr(node, "ctx", None), ast.Store):
            continue
        rows = _indexed(facts, node)
        if rows is not None and can_be_gathered(facts, rows):
            found.append(rows)
        elif rows is not None or not _hands_on(facts, node):
            return None
    return found


def can_be_gathered(facts: Facts, rows: ast.expr) -> bool:
    """Whether `rows` are tensors with one row for each sample, through which no gradients flow."""
    values = locals_of(facts.of(rows))
    return bool(values) and all(_is_plain(v) for v in values)


def turned(facts: Facts, node: ast.AST) -> ast.expr | None:
    """`x` of `x.flip(0)`, `torch.roll(x, 1, 0)` and kin: the rows of a batch in another order."""
    if not isinstance(node, ast.Call):
        return None
    name = facts.external.get(node, "")
    if name in {"torch.flip", "torch.roll", "torch.flipud"}:
        rows, rest = (node.args[0], node.args[1:]) if node.args else (None, [])
    elif not name and isinstance(node.func, ast.Attribute) and node.func.attr in {"flip", "roll", "flipud"}:
        rows, rest = node.func.value, node.args
    else:
        return None
    last = name.rpartition(".")[2] or node.func.attr  # type: ignore[union-attr]
    return (
        rows if rows is not None and can_be_gathered(facts, rows) and _along_rows(last, rest, node.keywords) else None
    )


def _along_rows(name: str, rest: list[ast.expr], keywords: list[ast.keyword]) -> bool:
    if name == "flipud":
        return True
    named = next((k.value for k in keywords if k.arg in {"dims", "dim"}), None)
    dims = (
        named
        if named is not None
        else rest[1]
        if name == "roll" and len(rest) == 2
        else rest[0]
        if name == "flip" and len(rest) == 1
        else None
    )
    if isinstance(dims, ast.List | ast.Tuple):
        dims = dims.elts[0] if len(dims.elts) == 1 else None
    return isinstance(dims, ast.Constant) and dims.value == 0


def _is_plain(rows: Local) -> bool:
    if rows.spread is not Spread.SHARD or rows.grad or rows.batch or rows.whole or rows.order is not None:
        return False
    return (
        axes.covers(rows, [0]) and rows.mask is None and rows.sliced is None and not rows.blocks and rows.packed is None
    )


def _indexed(facts: Facts, order: ast.expr) -> ast.expr | None:
    """`x` of `x[order]` and `x[order, :]`."""
    parent = facts.parents.get(order)
    if (
        isinstance(parent, ast.Tuple)
        and parent.elts[0] is order
        and isinstance(facts.parents.get(parent), ast.Subscript)
    ):
        parent, order = facts.parents[parent], parent
    if not isinstance(parent, ast.Subscript) or parent.slice is not order or not isinstance(parent.ctx, ast.Load):
        return None
    return parent.value


def _hands_on(facts: Facts, order: ast.expr) -> bool:
    """Whether `order` goes only where its further uses are seen: into variables, functions of the program, to the device."""
    parent = facts.parents.get(order)
    if isinstance(order, ast.Attribute) and isinstance(parent, ast.Call) and parent.func is order:
        return order.attr in MOVES
    if isinstance(parent, ast.Tuple | ast.List):
        order, parent = parent, facts.parents.get(parent)
        if isinstance(parent, ast.Subscript):
            return parent.slice is order and _indexed(facts, order) is not None
    if isinstance(parent, ast.Assign | ast.AnnAssign | ast.Return | ast.NamedExpr | ast.Expr):
        return True
    if isinstance(parent, ast.keyword):
        parent = facts.parents[parent]
        return isinstance(parent, ast.Call) and bool(facts.callees.get(parent))
    if isinstance(parent, ast.Attribute):
        call = facts.parents.get(parent)
        return parent.attr in MOVES and isinstance(call, ast.Call) and call.func is parent
    return isinstance(parent, ast.Call) and order in parent.args and bool(facts.callees.get(parent))
