"""Whether the size of a tensor does not matter where it is used: `x.grad.sign()`, `x.grad is None`, `x.grad.zero_()`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.facts.facts import Facts

SIGNS = {"sign", "sgn", "signbit"}
ASKED = {"shape", "size", "dim", "dtype", "device", "ndim"}
COPIES = {"data", "detach", "clone", "cpu", "to", "float", "view", "reshape"}
MAX_STEPS = 8


def is_scale_free(facts: Facts, node: ast.expr, steps: int = MAX_STEPS) -> bool:
    """Whether a positive factor in the value of `node` changes nothing; followed through names and project functions."""
    parent = facts.parents[node]
    if steps == 0:
        return False
    if isinstance(parent, ast.Attribute):
        return _method(facts, parent, steps)
    if isinstance(parent, ast.Compare):
        return all(isinstance(op, ast.Is | ast.IsNot) for op in parent.ops)
    if isinstance(parent, ast.Subscript) and parent.value is node:
        return is_scale_free(facts, parent, steps - 1)
    if isinstance(parent, ast.Call) and node in parent.args:
        return facts.external.get(parent, "").rpartition(".")[2] in SIGNS or _argument(facts, parent, node, steps)
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
        name = _only_name(parent.targets[0])
        return name is not None and _all_free(facts, facts.function(parent), name, steps)
    return False


def _method(facts: Facts, attribute: ast.Attribute, steps: int) -> bool:
    name, called = attribute.attr, facts.parents[attribute]
    is_call = isinstance(called, ast.Call) and called.func is attribute
    if name in SIGNS | ASKED or (is_call and name.endswith("_") and isinstance(facts.parents[called], ast.Expr)):
        return True
    return name in COPIES and is_scale_free(facts, called if is_call else attribute, steps - 1)  # type: ignore[arg-type]


def _argument(facts: Facts, call: ast.Call, node: ast.expr, steps: int) -> bool:
    """Whether every project function that `call` enters uses its parameter so."""
    functions = [f for f in facts.callees.get(call, ()) if isinstance(f, ast.FunctionDef)]
    position = next(i for i, argument in enumerate(call.args) if argument is node)
    names = [(f, f.args.args[position].arg) for f in functions if len(f.args.args) > position and facts.scopes[f].enclosing_class is None]
    return bool(names) and len(names) == len(functions) and all(_all_free(facts, f, name, steps) for f, name in names)


def _all_free(facts: Facts, function: ast.AST, name: str, steps: int) -> bool:
    reads = list(_reads(function, name))
    return bool(reads) and all(is_scale_free(facts, read, steps - 1) for read in reads)


def _reads(function: ast.AST, name: str) -> Iterator[ast.Name]:
    return (n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load))


def _only_name(target: ast.expr) -> str | None:
    if isinstance(target, ast.Tuple | ast.List) and len(target.elts) == 1:
        target = target.elts[0]
    return target.id if isinstance(target, ast.Name) else None
