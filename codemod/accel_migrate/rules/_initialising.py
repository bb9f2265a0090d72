"""Statements that draw a model's weights anew: they come before it is prepared, from the stream that all processes share."""

from __future__ import annotations

import ast

from accel_migrate.facts.facts import Facts

DRAWS = {"normal_", "uniform_", "trunc_normal_", "fill_", "zero_", "copy_", "constant_"}


def initialises(facts: Facts, statement: ast.stmt, models: set[str]) -> bool:
    """Whether `statement` is `model.apply(f)`, or hands one of `models` to a function that writes into its parameters."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return False
    if isinstance(call.func, ast.Attribute) and call.func.attr == "apply" and ast.unparse(call.func.value) in models:
        return True
    given = any(ast.unparse(argument) in models for argument in call.args)
    return given and any(_draws(facts, function) for function in facts.callees.get(call, ()))


def _draws(facts: Facts, function: ast.AST) -> bool:
    calls = [n for n in ast.walk(function) if isinstance(n, ast.Call)]
    return any(
        facts.external.get(c, "").startswith("torch.nn.init.")
        or (isinstance(c.func, ast.Attribute) and c.func.attr in DRAWS)
        for c in calls
    )
