"""Objects that are looked at as a whole: `json.dump(vars(args), file)`, `asdict(config)`, `print(settings)`.

A device's name that such an object holds is part of what is written down: it stays there, and stays a string.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeAlias

from accel_migrate.facts.facts import Facts
from accel_migrate.facts.scopes import FunctionNode, parameters
from accel_migrate.facts.shown import FUNCTIONS
from accel_migrate.facts.values import Box, ClassValue, Instance, Made, Values

Objects: TypeAlias = "frozenset[object]"
"""What can hold others: where it is made; of the program's classes all objects as one, and `ClassValue` for a class itself."""

RECORDERS = FUNCTIONS | {
    "vars", "dir", "print", "str", "repr", "pprint", "asdict", "astuple", "dataclasses.asdict", "dataclasses.astuple",
    "pprint.pprint", "pprint.pformat", "inspect.getmembers", "torch.save", "yaml.safe_dump_all", "yaml.dump_all", "dill.dump",
    "wandb.init", "wandb.config.update", "swanlab.init", "mlflow.log_params", "mlflow.log_dict", "attr.asdict", "attrs.asdict",
}  # fmt: skip
"""Functions that look at everything which an object holds."""
METHODS = {
    "items", "values", "copy", "to_dict", "as_dict", "asdict", "toDict", "dict", "json", "to_json", "to_yaml", "dump", "dumps",
    "model_dump", "model_dump_json", "_asdict", "_get_kwargs", "pretty", "save", "__str__", "__repr__", "__getstate__",
}  # fmt: skip
"""Methods that do, where they are not the program's own."""
ASK_FOR_ONE = {
    "isinstance", "issubclass", "hasattr", "getattr", "setattr", "delattr", "type", "len", "id", "bool", "callable", "super", "iter", "list",
    "set", "sorted", "next", "range",
}  # fmt: skip
"""Functions that look at no values, or at one that is named."""
ONE_BY_ONE = ast.Return | ast.Assign | ast.AnnAssign | ast.For | ast.Yield
"""Where a tuple is only what several values are handed on by."""


def owner(target: ast.expr) -> ast.expr | None:
    """What holds `target`: `args` for `args.device` and for `args["device"]`; None for a variable."""
    return target.value if isinstance(target, ast.Attribute | ast.Subscript) else None


def is_recorded(facts: Facts, target: ast.expr, body: ast.AST | None = None) -> bool:
    """Whether what holds the attribute or item `target` is looked at as a whole, by itself or in an object that holds it.

    `body` is the class in whose body the variable `target` stands.
    """
    holder = owner(target)
    if holder is None:
        wanted = _of_class(facts, body) if isinstance(body, ast.ClassDef) else frozenset()
        return bool(wanted) and _is_looked_at(facts, wanted, "", known=False)
    own = _objects(facts.of(holder))
    name = "" if own else _last_name(holder)
    return _is_looked_at(facts, own, name, known=False) or _is_looked_at(
        facts, _around(facts, holder, own), "", known=True
    )


def _is_looked_at(facts: Facts, wanted: Objects, name: str, known: bool) -> bool:
    """Whether one of the objects `wanted` (or of those called `name`) is; `known`: only by what is known to do so."""
    for _, node in facts.nodes(ast.Name, ast.Attribute, ast.Subscript, ast.Call):
        assert isinstance(node, ast.expr)
        if isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            found = wanted & _objects(facts.of(node))
            if (found or (name and _last_name(node) == name)) and _looks(facts, node, known or _is_class(found)):
                return True
    return False


def _looks(facts: Facts, node: ast.expr, known: bool) -> bool:
    """Whether the expression around `node` looks at everything that `node` holds."""
    parent = facts.parents[node]
    if isinstance(parent, ast.Attribute):
        return parent.attr == "__dict__" or (parent.attr in METHODS and _is_foreign_method(facts, parent))
    if isinstance(parent, ast.Subscript):
        return parent.value is node and not isinstance(parent.slice, ast.Constant) and _is_dict(facts, node)
    if isinstance(parent, ast.keyword):
        parent = facts.parents[parent]
    if isinstance(parent, ast.Call):
        return parent.func is not node and _call_looks(facts, parent, known)
    if isinstance(parent, ast.FormattedValue):
        return True
    if isinstance(parent, ast.Dict | ast.List | ast.Set | ast.Tuple):
        handed_on = isinstance(parent, ast.Tuple) and isinstance(facts.parents[parent], ONE_BY_ONE)
        return not handed_on and (not known or _looks(facts, parent, known))
    return isinstance(parent, ast.BinOp) and (not known or _looks(facts, parent, known))


def _call_looks(facts: Facts, call: ast.Call, known: bool) -> bool:
    """Whether `call` looks at all that one of its arguments holds; a function that is not known may."""
    name = facts.external.get(call, "") or facts.text(call.func)
    if name == "getattr" and len(call.args) > 1:
        return not isinstance(call.args[1], ast.Constant)
    if name in ASK_FOR_ONE or name in RECORDERS:
        return name in RECORDERS
    called = facts.callees.get(call)
    return not known and not (called and all(_is_followed(function) for function in called))


def _is_followed(function: FunctionNode) -> bool:
    return function.args.vararg is None and bool(parameters(function))


def _is_foreign_method(facts: Facts, method: ast.Attribute) -> bool:
    call = facts.parents[method]
    return isinstance(call, ast.Call) and call.func is method and not facts.callees.get(call)


def _around(facts: Facts, holder: ast.expr, own: Objects) -> Objects:
    """The objects that hold `holder`, whose values are `own`: those in the path to it, and those it is assigned to."""
    found: set[object] = set()
    while (above := owner(holder)) is not None:
        found |= _objects(facts.of(above))
        holder = above
    assigned = list(_given(facts))
    size = -1
    while size != len(found):
        size = len(found)
        for target, value in assigned:
            if _objects(facts.of(value)) & (own | found):
                found |= _objects(facts.of(target))
    return frozenset(found - own)


def _given(facts: Facts) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What is given an attribute or item -> the value of it."""
    for _, node in facts.nodes(ast.Assign):
        assert isinstance(node, ast.Assign)
        for target in node.targets:
            holder = owner(target)
            if holder is not None:
                yield holder, node.value


def _objects(values: Values) -> Objects:
    """Those of `values` that can hold others and be told apart."""
    return frozenset(
        v if isinstance(v, ClassValue) else v.cls.node if isinstance(v, Instance) else v.site
        for v in values
        if isinstance(v, Instance | Made | Box | ClassValue)
    )


def _of_class(facts: Facts, body: ast.ClassDef) -> Objects:
    """The objects of the class `body`, and the class as the program reads it."""
    found = (v for _, node in facts.nodes(ast.Name, ast.Attribute) for v in facts.of(node))
    return frozenset(v for v in found if isinstance(v, ClassValue) and v.node is body) | {body}


def _is_class(found: Objects) -> bool:
    return bool(found) and all(isinstance(v, ClassValue) for v in found)


def _is_dict(facts: Facts, node: ast.expr) -> bool:
    return any(isinstance(v, Box) for v in facts.of(node))


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
