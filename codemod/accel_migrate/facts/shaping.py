"""Numbers of rows that shape or cut tensors: `x.view(len(x), -1)`, `range(x.size(0))`, `out[:len(x)]`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.facts.facts import Facts, Gather
from accel_migrate.facts.gathered import later
from accel_migrate.facts.operations import spreads
from accel_migrate.facts.values import Spread

SHAPING = {
    "view", "reshape", "expand", "repeat", "split", "chunk", "narrow", "unflatten", "arange", "zeros", "ones", "full", "eye", "empty", "range", "randperm",
}  # fmt: skip
"""Functions by which a number shapes or cuts tensors."""


def shapes(facts: Facts, number: ast.expr) -> bool:
    """Whether a number is a bound of a slice, or an argument of a function that shapes or cuts a tensor."""
    for parent in facts.ancestors(number):
        if isinstance(parent, ast.Slice):
            return True
        if isinstance(parent, ast.Call):
            return ast.unparse(parent.func).rpartition(".")[2] in SHAPING
        if isinstance(parent, ast.stmt):
            break
    return False


def measured(node: ast.expr) -> ast.expr | None:
    """`x` of `len(x)`, `x.size(0)`, `x.size()[0]` and `x.shape[0]`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len" and len(node.args) == 1:
        return node.args[0]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "size":
        return node.func.value
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
        return node.value.value
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call):
        return measured(node.value)
    return None


def shaping_counts(facts: Facts, gather: Gather, planned: bool = False) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Numbers of rows behind `gather` that shape or cut what is gathered, with that whose rows are counted, which is not.

    While `gather` is only planned, figures around such a number are still those of one process's rows.
    """
    after = list(later(facts, gather))
    other = {n.id for n in after if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for node in after:
        rows = measured(node)
        if rows is None or spreads(facts.of(node)) != {Spread.COUNT} or not shapes(facts, node):
            continue
        if any(isinstance(n, ast.Name) and n.id in other for n in ast.walk(rows)):
            continue  # rows of a batch that is taken later
        whole = (
            any(isinstance(n, ast.Name) and n.id in gather.names for n in ast.walk(rows))
            or ast.unparse(rows) in gather.paths
        )
        figure = not planned and any(outer in facts.conversions for outer in (node, *facts.ancestors(node)))
        if not whole and not figure:
            yield node, rows


def whole_counts(facts: Facts, gather: Gather) -> Iterator[ast.expr]:
    """Numbers of rows behind `gather` that are those of the global batch."""
    if gather.backward is None:
        yield from (number for number, _ in shaping_counts(facts, gather))
    yield from (node for node in later(facts, gather) if isinstance(node, ast.Name) and node.id in gather.sizes)
