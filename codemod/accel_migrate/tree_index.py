"""What is asked of a syntax tree again and again: its nodes, those of one kind, their parents, their texts."""

from __future__ import annotations

import ast


class TreeIndex:
    """The nodes of `tree`, the file imported as `module`; it must not change any more."""

    def __init__(self, tree: ast.Module, module: str) -> None:
        self.nodes: list[ast.AST] = [tree]
        """In the order of `ast.walk`."""
        self.parents: dict[ast.AST, ast.AST] = {}
        for node in self.nodes:  # grows meanwhile
            for child in children(node):
                self.parents[child] = node
                self.nodes.append(child)
        for number, node in enumerate(self.nodes):
            node.place = (module, number)  # type: ignore[attr-defined]
        self._by_kind: dict[tuple[type[ast.AST], ...], list[ast.AST]] = {}
        self._texts: dict[tuple[type[ast.AST], ...], frozenset[str]] = {}

    def of_kind(self, *kinds: type[ast.AST]) -> list[ast.AST]:
        """The nodes of these kinds, in the order of `ast.walk`."""
        found = self._by_kind.get(kinds)
        if found is None:
            found = self._by_kind[kinds] = [node for node in self.nodes if isinstance(node, kinds)]
        return found

    def texts(self, *kinds: type[ast.AST]) -> frozenset[str]:
        """The nodes of these kinds as code."""
        found = self._texts.get(kinds)
        if found is None:
            found = self._texts[kinds] = frozenset(map(ast.unparse, self.of_kind(*kinds)))
        return found


def place_of(node: ast.AST | None) -> tuple[str, int]:
    """The module of `node` and its number there, by which nodes are put in order; without a node, what comes first."""
    return getattr(node, "place", ("", -1))


def children(node: ast.AST) -> list[ast.AST]:
    """What `ast.iter_child_nodes` gives, sooner."""
    found: list[ast.AST] = []
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, ast.AST):
            found.append(value)
        elif isinstance(value, list):
            found.extend(item for item in value if isinstance(item, ast.AST))
    return found
