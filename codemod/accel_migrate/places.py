"""Where in a file an edit or a finding stands."""

from __future__ import annotations

import ast

from accel_migrate.edits import Edit, Finding, RenameParameter, WrapStatements


def node_of(item: Edit | Finding) -> ast.AST | None:
    """The node which `item` is about; None for imports, which have no place of their own, and for whole files."""
    if isinstance(item, WrapStatements):
        return item.nodes[0]
    if isinstance(item, RenameParameter):
        return item.parameter
    node: ast.AST | None = getattr(item, "node", None)
    return None if isinstance(node, ast.Module) else node


def line_of(item: Edit | Finding) -> int:
    """The line on which `item` starts, counted from 1; 1 where it has no place of its own."""
    return int(getattr(node_of(item), "lineno", 1))


def header_lines(node: ast.AST) -> range:
    """The lines of a simple statement or expression; of a compound statement only those before its body."""
    first = int(getattr(node, "lineno", 1))
    last = int(getattr(node, "end_lineno", None) or first)
    body = getattr(node, "body", None)
    if isinstance(body, list) and body:
        last = max(first, body[0].lineno - 1)
    return range(first, last + 1)
