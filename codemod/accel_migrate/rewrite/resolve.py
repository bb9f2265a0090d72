"""The libcst nodes of just those `ast` nodes that edits name."""

from __future__ import annotations

import ast
from collections.abc import Iterable

import libcst as cst

from accel_migrate.rewrite.pairs import children


class Twins:
    """The libcst node of each wanted `ast` node, and the way down to it."""

    def __init__(self, tree: ast.Module, module: cst.Module, wanted: Iterable[ast.AST]) -> None:
        self._of: dict[ast.AST, cst.CSTNode] = {tree: module}
        self._above: dict[cst.CSTNode, cst.CSTNode] = {}
        self._descend(tree, module, _with_ancestors(tree, wanted))

    def _descend(self, tree: ast.Module, module: cst.Module, on_the_way: set[ast.AST]) -> None:
        stack: list[tuple[ast.AST, cst.CSTNode]] = [(tree, module)]
        while stack:
            node, twin = stack.pop()
            for child, path in children(node, twin):
                if child not in on_the_way:
                    continue
                for above, below in zip((twin, *path), path, strict=False):
                    if above is not below:
                        self._above[below] = above
                self._of[child] = path[-1]
                stack.append((child, path[-1]))

    def __getitem__(self, node: ast.AST) -> cst.CSTNode:
        """Raises LookupError for a node of another tree, or without libcst counterpart (a pattern, an operator)."""
        try:
            return self._of[node]
        except KeyError:
            where = f"line {getattr(node, 'lineno', '?')}"
            raise LookupError(f"{type(node).__name__} at {where} is not a node that edits can address") from None

    def path_to(self, twin: cst.CSTNode) -> list[cst.CSTNode]:
        """`twin` and everything above it, innermost first."""
        path = [twin]
        while path[-1] in self._above:
            path.append(self._above[path[-1]])
        return path


def _with_ancestors(tree: ast.Module, wanted: Iterable[ast.AST]) -> set[ast.AST]:
    parents = parents_of(tree)
    found: set[ast.AST] = set()
    for node in wanted:
        step: ast.AST | None = node
        while step is not None and step not in found:
            found.add(step)
            step = parents.get(step)
    return found


def parents_of(tree: ast.AST) -> dict[ast.AST, ast.AST]:
    """The parent of each node below `tree`."""
    parents: dict[ast.AST, ast.AST] = {}
    stack = [tree]
    while stack:
        node = stack.pop()
        for child in ast.iter_child_nodes(node):
            parents[child] = node
            stack.append(child)
    return parents
