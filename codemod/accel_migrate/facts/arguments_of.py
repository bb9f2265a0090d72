"""Which argument of a call fills which parameter."""

from __future__ import annotations

import ast

from accel_migrate.facts.facts import Facts
from accel_migrate.facts.scopes import FunctionNode


def bound_arguments(facts: Facts, call: ast.Call, function: FunctionNode) -> dict[str, ast.expr]:
    """Parameter -> what `call` passes for it, as far as that can be seen (starred arguments end the list)."""
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    if is_bound(facts, function):
        names = names[1:]
    found: dict[str, ast.expr] = {}
    for name, value in zip(names, call.args, strict=False):
        if isinstance(value, ast.Starred):
            break
        found[name] = value
    found.update({k.arg: k.value for k in call.keywords if k.arg is not None})
    return found


def is_bound(facts: Facts, function: FunctionNode) -> bool:
    """Whether the first parameter of `function` is the object or class that it is called on."""
    if isinstance(function, ast.Lambda) or facts.scopes[function].enclosing_class is None:
        return False
    return "staticmethod" not in {ast.unparse(d) for d in function.decorator_list}
