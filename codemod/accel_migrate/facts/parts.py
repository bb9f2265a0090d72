"""Batches as their loader hands them out, tuples or dicts of tensors: how many parts they have is no number of rows."""

from __future__ import annotations

import ast

from accel_migrate.facts.facts import Facts
from accel_migrate.facts.values import locals_of

CONTAINERS = {"list", "tuple", "dict", "Sequence", "Mapping", "Iterable"}


def is_parts(facts: Facts, node: ast.expr) -> bool:
    """Whether `node` is such a batch: a test says that it is a container, or it is taken apart in this function."""
    if not isinstance(node, ast.Name) or not locals_of(facts.of(node)) or not all(v.batch for v in locals_of(facts.of(node))):
        return False
    return _tested(facts, node) or _unpacked(facts, node)


def _tested(facts: Facts, node: ast.Name) -> bool:
    """Whether `node` stands below `if isinstance(node, list)`."""
    child: ast.AST = node
    for ancestor in facts.ancestors(node):
        if isinstance(ancestor, ast.If | ast.IfExp):
            body = ancestor.body if isinstance(ancestor.body, list) else [ancestor.body]
            if child in body and any(_says_container(test, node.id) for test in _all_of(ancestor.test)):
                return True
        elif isinstance(ancestor, ast.FunctionDef):
            return False
        child = ancestor
    return False


def _all_of(test: ast.expr) -> list[ast.expr]:
    """The tests that all hold where `test` does."""
    return [inner for value in test.values for inner in _all_of(value)] if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]


def _says_container(test: ast.expr, name: str) -> bool:
    if not isinstance(test, ast.Call) or ast.unparse(test.func) != "isinstance" or len(test.args) != 2 or ast.unparse(test.args[0]) != name:
        return False
    kinds = test.args[1].elts if isinstance(test.args[1], ast.Tuple) else [test.args[1]]
    return all(ast.unparse(kind).rpartition(".")[2] in CONTAINERS for kind in kinds)


def _unpacked(facts: Facts, node: ast.Name) -> bool:
    """Whether the function takes `node` apart: `x, y = batch`."""
    assigned = (n for n in ast.walk(facts.function(node)) if isinstance(n, ast.Assign))
    return any(isinstance(a.value, ast.Name) and a.value.id == node.id and any(isinstance(t, ast.Tuple | ast.List) for t in a.targets) for a in assigned)
