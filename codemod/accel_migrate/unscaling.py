"""Who reads the gradients that a script unscales: the accelerator unscales them itself before it clips or steps."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.facts import catalog
from accel_migrate.facts.values import Role

HOLDERS = {Role.MODEL, Role.OPTIMIZER, Role.PARAMETERS}
"""What has gradients."""


def gradients_are_read(context: Context, unscaling: ast.stmt) -> bool:
    """Whether something looks at the gradients behind `unscaling`, ahead of a step and of torch's own clipping."""
    for node in _behind(context, unscaling):
        if isinstance(node, ast.Attribute) and node.attr == "grad":
            return True
        if isinstance(node, ast.Call):
            if context.facts.external.get(node) in catalog.CLIPPING or _steps(node):
                return False
            if any(context.facts.role(v) in HOLDERS for given in (*node.args, *(k.value for k in node.keywords)) for v in context.facts.of(given)):
                return True
    return False


def _behind(context: Context, statement: ast.stmt) -> Iterator[ast.AST]:
    """The expressions of the function behind `statement`, as they are written."""
    after = (statement.end_lineno, statement.end_col_offset)
    nodes = [n for n in ast.walk(context.facts.function(statement)) if isinstance(n, ast.expr) and (n.lineno, n.col_offset) >= after]  # type: ignore[operator]
    yield from sorted(nodes, key=lambda n: (n.lineno, n.col_offset))


def _steps(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "step"
