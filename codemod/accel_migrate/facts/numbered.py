"""A `collate_fn` that writes the number of its sample into each of the rows it joins: `boxes[:, 0] = i`.

Each process numbers the samples of its slice from 0 on, so that gathered rows would all belong to the first slice's samples.
"""

from __future__ import annotations

import ast

from accel_migrate.facts.facts import Facts
from accel_migrate.facts.values import Function

FILLED = {"full", "full_like", "new_full"}


def numbers_samples(facts: Facts) -> ast.stmt | None:
    """Where a `collate_fn` of the program writes the numbers of the samples; None where none does."""
    keywords = (k.value for _, call in facts.nodes(ast.Call) for k in call.keywords if k.arg == "collate_fn")  # type: ignore[attr-defined]
    bodies = {v.node: None for value in keywords for v in facts.of(value) if isinstance(v, Function)}
    loops = (n for body in bodies for n in ast.walk(body) if isinstance(n, ast.For))
    return next((found for loop in loops if (found := _numbering(loop)) is not None), None)


def _numbering(loop: ast.For) -> ast.stmt | None:
    counts = isinstance(loop.iter, ast.Call) and ast.unparse(loop.iter.func) == "enumerate"
    number = loop.target.elts[0] if counts and isinstance(loop.target, ast.Tuple) else None
    if not isinstance(number, ast.Name):
        return None
    return next(
        (s for s in ast.walk(loop) if isinstance(s, ast.stmt) and s is not loop and _writes(s, number.id)), None
    )


def _writes(statement: ast.stmt, number: str) -> bool:
    """Whether `statement` puts the variable `number` into columns of a tensor, or makes a tensor of it."""
    if isinstance(statement, ast.Assign) and _is(statement.value, number):
        return any(isinstance(t, ast.Subscript) and isinstance(t.slice, ast.Tuple) for t in statement.targets)
    calls = (
        n for n in ast.walk(statement) if isinstance(n, ast.Call) and ast.unparse(n.func).rpartition(".")[2] in FILLED
    )
    return any(_is(argument, number) for call in calls for argument in call.args)


def _is(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
