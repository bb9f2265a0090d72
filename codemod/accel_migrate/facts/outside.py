"""Training loops whose batches come from a caller that is not part of the program."""

from __future__ import annotations

import ast

from accel_migrate.facts.facts import Facts


def batches_from_outside(facts: Facts) -> str | None:
    """What a training loop runs over, where it is a parameter, or an attribute of an object, that nothing here provides."""
    for call in facts.backwards:
        loop = next((a for a in facts.ancestors(call) if isinstance(a, ast.For)), None)
        function = next((a for a in facts.ancestors(call) if isinstance(a, ast.FunctionDef)), None)
        if loop is None or function is None or (isinstance(loop.iter, ast.Call) and ast.unparse(loop.iter.func) == "range"):
            continue
        names = {a.arg for a in [*function.args.args, *function.args.kwonlyargs]}
        for node in ast.walk(loop.iter):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names and _is_never_made(facts, function):
                return ast.unparse(node)
            if isinstance(node, ast.Name) and node.id in names and not facts.callers.get(function) and not _is_receiver(facts, function, node):
                return node.id
    return None


def _is_never_made(facts: Facts, method: ast.FunctionDef) -> bool:
    owner = facts.parents[method]
    calls = (n for _, n in facts.nodes(ast.Call) if isinstance(n, ast.Call))
    return isinstance(owner, ast.ClassDef) and not any(ast.unparse(c.func).split(".")[-1] == owner.name for c in calls)


def _is_receiver(facts: Facts, function: ast.FunctionDef, node: ast.Name) -> bool:
    return isinstance(facts.parents[function], ast.ClassDef) and bool(function.args.args) and function.args.args[0].arg == node.id
