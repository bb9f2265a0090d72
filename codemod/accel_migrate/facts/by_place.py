"""Tensors that outlive the batch and hold something for each place in it: `delta[: len(x)]` of `delta = torch.zeros(batch_size, 8)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.facts.facts import Facts
from accel_migrate.facts.operations import spreads
from accel_migrate.facts.values import Spread


def read_by_place(facts: Facts) -> Iterator[ast.Subscript]:
    """Reads of the first rows of such tensors, as many as this process has of the batch."""
    for _, node in facts.nodes(ast.Subscript):
        assert isinstance(node, ast.Subscript)
        if isinstance(node.ctx, ast.Load) and holds_places(facts, node):
            yield node


def holds_places(facts: Facts, node: ast.Subscript) -> bool:
    """Whether `node` is a part, from the first row on, of a tensor made before the loop over a loader and changed in it."""
    name, loop = root(node), next((a for a in facts.ancestors(node) if a in facts.loops), None)
    if name is None or not isinstance(loop, ast.For) or not _from_the_first(facts, node):
        return False
    stores = [n for n in ast.walk(facts.function(node)) if isinstance(n, ast.Assign | ast.AugAssign)]
    before = [s for s in stores if s.lineno < loop.lineno and any(isinstance(t, ast.Name) and t.id == name for t in _targets(s))]
    changes = [s for s in stores if facts.inside(s, loop) and any(not isinstance(t, ast.Name) and root(t) == name for t in _targets(s))]
    return bool(before) and bool(changes)


def root(node: ast.expr) -> str | None:
    """The variable of `x`, `x.data`, `x.data[:n]`."""
    while isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr == "data"):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _from_the_first(facts: Facts, node: ast.Subscript) -> bool:
    """Whether `node` takes rows from the first one on, as many as this process has."""
    rows = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
    return isinstance(rows, ast.Slice) and rows.lower is None and rows.upper is not None and spreads(facts.of(rows.upper)) == {Spread.COUNT}


def _targets(statement: ast.Assign | ast.AugAssign) -> list[ast.expr]:
    return statement.targets if isinstance(statement, ast.Assign) else [statement.target]
