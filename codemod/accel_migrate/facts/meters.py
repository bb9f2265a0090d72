"""Methods that keep what they are given (meters, metrics, histories), and those that only compute with it."""

from __future__ import annotations

import ast

from accel_migrate.facts.classes import find_method
from accel_migrate.facts.facts import Facts

_FILLING = {"append", "extend", "add", "add_", "update", "insert", "put", "write", "copy_"}


def only_computes(facts: Facts, cls: ast.ClassDef, method: ast.AST) -> bool:
    """Whether `method` of `cls` returns something and keeps nothing in its object, directly or through other methods."""
    returns = any(isinstance(n, ast.Return) and n.value is not None for n in ast.walk(method))
    return returns and not _keeps(facts, cls, method, set())


def _keeps(facts: Facts, cls: ast.ClassDef, method: ast.AST, seen: set[ast.AST]) -> bool:
    arguments = getattr(method, "args", None)
    if method in seen or not isinstance(arguments, ast.arguments) or not arguments.args:
        return False
    seen.add(method)
    name = arguments.args[0].arg
    for node in ast.walk(method):
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store) and _is_part_of(node, name):
            return True
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr in _FILLING and not isinstance(node.func.value, ast.Name) and _is_part_of(node.func.value, name):
            return True
        if isinstance(node.func.value, ast.Name) and node.func.value.id == name:
            other = find_method(facts, cls, node.func.attr)
            if other is not None and _keeps(facts, cls, other, seen):
                return True
    return False


def _is_part_of(node: ast.expr, name: str) -> bool:
    """Whether `node` is an attribute of the object `name`, or an element of one."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return isinstance(node, ast.Name) and node.id == name
