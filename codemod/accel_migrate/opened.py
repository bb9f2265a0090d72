"""Files that a script opens itself: `with open(path, "rb") as f: torch.load(f)`."""

from __future__ import annotations

import ast

from accel_migrate.context import Context

OPENERS = {"open", "io.open", "gzip.open", "bz2.open", "lzma.open"}


def opened(context: Context, file: ast.expr | None) -> tuple[ast.expr | None, ast.stmt | None]:
    """The path of `file`, which is `file` itself unless it was opened, and the statement that opens it."""
    if isinstance(file, ast.Call):
        return (_path(context, file), None) if _path(context, file) is not None else (file, None)
    if isinstance(file, ast.Name):
        for node in ast.walk(context.facts.function(file)):
            for value in _bound_to(node, file.id):
                if _path(context, value) is not None and node.lineno <= file.lineno:  # type: ignore[attr-defined]
                    return _path(context, value), node  # type: ignore[return-value]
    return file, None


def _bound_to(node: ast.AST, name: str) -> list[ast.expr]:
    """What the statement `node` makes the variable `name`."""
    if isinstance(node, ast.With):
        return [i.context_expr for i in node.items if isinstance(i.optional_vars, ast.Name) and i.optional_vars.id == name]
    if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
        return [node.value]
    return []


def _path(context: Context, value: ast.expr) -> ast.expr | None:
    if isinstance(value, ast.Call) and value.args and context.facts.external.get(value) in OPENERS:
        return value.args[0]
    return None
