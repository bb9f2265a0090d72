"""Rows that a counter picks: `x[j]` in `for j in range(4)` is another row on each process, and none of the fifth of four rows."""

from __future__ import annotations

import ast

from accel_migrate.facts.facts import Facts
from accel_migrate.facts.operations import spreads


def is_counter(facts: Facts, index: ast.expr) -> bool:
    """Whether `index` (or the first entry of it) counts up to a number that is not that of this process's rows."""
    first = index.elts[0] if isinstance(index, ast.Tuple) and index.elts else index
    if not isinstance(first, ast.Name):
        return False
    loop = next((a for a in facts.ancestors(first) if _binds(a, first.id)), None)
    if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call) or ast.unparse(loop.iter.func) != "range":
        return False
    return not any(spreads(facts.of(bound)) for bound in loop.iter.args)


def _binds(loop: ast.AST, name: str) -> bool:
    return isinstance(loop, ast.For) and isinstance(loop.target, ast.Name) and loop.target.id == name
