"""Rows that a counter picks: `x[j]` in `for j in range(4)` is another row on each process, and none of the fifth of four rows."""

from __future__ import annotations

import ast

from accel_migrate.facts.facts import Facts
from accel_migrate.facts.operations import spreads

DRAWS = {"random.randint", "random.randrange", "numpy.random.randint"}


def is_counter(facts: Facts, index: ast.expr) -> bool:
    """Whether `index` (or the first entry of it) counts up to a number that is not that of this process's rows."""
    first = index.elts[0] if isinstance(index, ast.Tuple) and index.elts else index
    if not isinstance(first, ast.Name):
        return False
    loop = next((a for a in facts.ancestors(first) if _binds(a, first.id)), None)
    if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call) or ast.unparse(loop.iter.func) != "range":
        return False
    return not any(spreads(facts.of(bound)) for bound in loop.iter.args)


def is_drawn(facts: Facts, index: ast.expr) -> bool:
    """Whether `index` is a number that Python or NumPy draws: `i = random.randint(0, len(x) - 1)`."""
    if not isinstance(index, ast.Name):
        return False
    stores = (n for n in facts.names(facts.function(index), index.id) if isinstance(n.ctx, ast.Store))
    values = [getattr(facts.parents[n], "value", None) for n in stores]
    return bool(values) and all(facts.external.get(v) in DRAWS and not any(k.arg == "size" for k in v.keywords) for v in values)  # type: ignore[union-attr, arg-type]


def _binds(loop: ast.AST, name: str) -> bool:
    return isinstance(loop, ast.For) and isinstance(loop.target, ast.Name) and loop.target.id == name
