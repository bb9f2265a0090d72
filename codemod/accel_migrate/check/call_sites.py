"""What one call of a function says of it: which arguments it gets, and which branches it does not take."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accel_migrate.facts.arguments_of import bound_arguments
from accel_migrate.facts.scopes import FunctionNode

if TYPE_CHECKING:
    from accel_migrate.check.program import Program


def argument(program: Program, call: ast.Call, function: FunctionNode, name: str) -> ast.expr | None:
    """What the parameter `name` of `function` is in `call`; None where it is no parameter, or cannot be seen."""
    if any(k.arg is None for k in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    given = bound_arguments(program.facts, call, function)
    return given[name] if name in given else _defaults(function).get(name)


def _defaults(function: FunctionNode) -> dict[str, ast.expr]:
    positional = [*function.args.posonlyargs, *function.args.args]
    found = {a.arg: d for a, d in zip(reversed(positional), reversed(function.args.defaults), strict=False)}
    found.update({a.arg: d for a, d in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True) if d is not None})
    return found


def left_out(program: Program, call: ast.Call, function: FunctionNode) -> set[ast.AST]:
    """The statements of `function` that `call` does not run: a parameter that is a constant there decides so."""
    found: set[ast.AST] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.If) and program.facts.function(node) is function:
            truth = _truth(program, call, function, node.test)
            if truth is not None:
                found.update(node.orelse if truth else node.body)
    return found


def _truth(program: Program, call: ast.Call, function: FunctionNode, test: ast.expr) -> bool | None:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _truth(program, call, function, test.operand)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        parts = [_truth(program, call, function, value) for value in test.values]
        return False if False in parts else True if None not in parts else None
    if not isinstance(test, ast.Name) or _is_assigned(function, test.id):
        return None
    value = argument(program, call, function, test.id)
    return bool(value.value) if isinstance(value, ast.Constant) else None


def _is_assigned(function: FunctionNode, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in ast.walk(function))
