"""Where a loss stops being one sum or mean over the rows: the root, maximum or sum of unlike terms it is made through."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.facts.facts import Facts
from accel_migrate.facts.values import Spread, spread_of

MAX_STEPS = 20


def origin_of_mixture(facts: Facts, loss: ast.expr) -> ast.expr:
    """The innermost expression, through variables and functions of the program, that makes `loss` mixed."""
    node, seen = loss, {loss}
    for _ in range(MAX_STEPS):
        inner = next((n for n in _made_of(facts, node) if n not in seen and spread_of(facts.of(n)) is Spread.MIXED), None)
        if inner is None:
            break
        seen.add(inner)
        node = inner
    return node


def _made_of(facts: Facts, node: ast.expr) -> Iterator[ast.expr]:
    """What `node` is computed from, or may have been assigned or returned from."""
    if isinstance(node, ast.Name):
        for statement in ast.walk(facts.function(node)):
            if isinstance(statement, ast.Assign | ast.AugAssign) and _binds(statement, node):
                yield statement.value
    elif isinstance(node, ast.Call):
        for function in facts.callees.get(node, ()):
            yield from (n.value for n in ast.walk(function) if isinstance(n, ast.Return) and n.value is not None)
        yield from node.args
        if isinstance(node.func, ast.Attribute):
            yield node.func.value
    else:
        yield from (n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr))


def _binds(statement: ast.Assign | ast.AugAssign, name: ast.Name) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return statement.lineno <= name.lineno and any(isinstance(t, ast.Name) and t.id == name.id for t in targets)
