"""Whether two expressions name the same file."""

from __future__ import annotations

import ast

from accel_migrate.context import Context
from accel_migrate.facts.values import Literal


def path_argument(call: ast.Call, index: int, name: str) -> ast.expr | None:
    """The argument of `call` at `index`, or the keyword `name`."""
    keyword = next((k.value for k in call.keywords if k.arg == name), None)
    return keyword or (call.args[index] if index < len(call.args) else None)


def same_file(context: Context, path: ast.expr, other: ast.expr) -> bool:
    """Whether both expressions are written alike, or end in the same file name."""
    return ast.unparse(path) == ast.unparse(other) or bool(_file_names(context, path) & _file_names(context, other))


def _file_names(context: Context, path: ast.expr) -> set[str]:
    """Names of files in the constants that `path` is made of, through variables and parameters."""
    values = [
        v.value
        for node in ast.walk(path)
        if isinstance(node, ast.expr)
        for v in context.facts.of(node)
        if isinstance(v, Literal)
    ]
    constants = [n.value for n in ast.walk(path) if isinstance(n, ast.Constant)]
    return {str(v).rpartition("/")[2] for v in (*values, *constants) if isinstance(v, str) and "." in v}
