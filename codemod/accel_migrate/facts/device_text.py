"""Which device variables must stay strings: those with a use that a `torch.device` does not serve as well.

`device = "cuda" if torch.cuda.is_available() else "cpu"` may be read by `torch.autocast(device)`, `device.split(":")` or
`json.dumps(...)`. A use that is not known to take both kinds counts as one that needs the string.
"""

from __future__ import annotations

import ast

from accel_migrate.facts.device import DeviceChoice, wants_cpu
from accel_migrate.facts.facts import Facts
from accel_migrate.facts.recorded import is_recorded
from accel_migrate.facts.scopes import FunctionNode, parameters
from accel_migrate.facts.values import Literal, Made, Role

TAKE_BOTH = {"torch.device", "torch.Generator", "torch.load", "torch.set_default_device"}
"""Functions whose positional arguments may be a device or its name."""
STRINGS_ONLY = ("torch.autocast", "torch.amp.", "torch.is_autocast")
SHOWN = {"print", "str"}
LOOK_AT_ALL = {"globals", "locals", "vars", "exec"}


def text_choices(facts: Facts, choices: list[DeviceChoice]) -> list[DeviceChoice]:
    """Those of `choices` that give a string which is needed as one."""
    return [
        c for c in choices
        if is_string(facts, c) and (is_looked_up(facts, c) or _is_recorded(facts, c) or any(not _serves(facts, node, c, choices) for node in reads(facts, c, choices)))
    ]  # fmt: skip


def is_looked_up(facts: Facts, choice: DeviceChoice) -> bool:
    """Whether the variable is one of a module that looks at all of its variables: `exec(open("overrides.py").read())`.

    Or what holds the attribute or item is looked at as a whole: `json.dump(vars(args), file)`.
    """
    if is_recorded(facts, choice.target, choice.scope.node):
        return True
    if choice.scope.parent is not None or not isinstance(choice.target, ast.Name):
        return False
    calls = (call for _, call in facts.nodes(ast.Call) if ast.unparse(call.func) in LOOK_AT_ALL)  # type: ignore[attr-defined]
    return any(facts.scope(call).module is choice.scope.module for call in calls)


def _is_recorded(facts: Facts, choice: DeviceChoice) -> bool:
    """Whether the device is assigned to an attribute of something that is looked at as a whole."""
    given = (node for _, node in facts.nodes(ast.Assign) if comes_from(facts, node.value, choice))  # type: ignore[attr-defined]
    return any(is_recorded(facts, target, facts.scope(node).node) for node in given for target in node.targets)  # type: ignore[attr-defined]


def is_string(facts: Facts, choice: DeviceChoice) -> bool:
    """Whether `choice` gives the device's name, and no `torch.device`."""
    values = [n.value for n in ast.walk(choice.statement) if isinstance(n, ast.Assign)]
    return any(isinstance(v, ast.JoinedStr) or any(isinstance(x, Literal) and isinstance(x.value, str) for x in facts.of(v)) for v in values)


def is_numbered(choice: DeviceChoice) -> bool:
    """Whether the name tells which of the devices it is, as in `cuda:0`."""
    return ":" in ast.unparse(choice.value)


def comes_from(facts: Facts, node: ast.AST, choice: DeviceChoice) -> bool:
    """Whether `node` may be the device that `choice` gives."""
    return any(isinstance(v, Made) and v.role is Role.DEVICE and facts.inside(v.site, choice.statement) for v in facts.of(node))


def reads(facts: Facts, choice: DeviceChoice, choices: list[DeviceChoice]) -> list[ast.expr]:
    """Expressions that may be the device of `choice`, outside the choices that are replaced as a whole."""
    replaced = [c.statement for c in choices if c is choice or not wants_cpu(facts, c)]
    return [
        node
        for _, node in facts.nodes(ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.IfExp, ast.BoolOp, ast.NamedExpr)
        if isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
        and comes_from(facts, node, choice)
        and not any(facts.inside(node, statement) for statement in replaced)
    ]  # type: ignore[return-value]


def is_compared_by_type(facts: Facts, node: ast.expr, choices: list[DeviceChoice]) -> ast.Constant | None:
    """The name with which `node`, the variable of a choice, is compared in a way that its type can be compared."""
    compare = facts.parents[node]
    if not isinstance(compare, ast.Compare) or any(facts.inside(compare, c.statement) for c in choices):
        return None
    operands = [compare.left, *compare.comparators]
    names = [o for o in operands if isinstance(o, ast.Constant) and isinstance(o.value, str)]
    known = any(is_string(facts, c) and comes_from(facts, node, c) and _is_variable(facts, node, c) for c in choices)
    return names[0] if known and len(operands) == 2 and len(names) == 1 else None


def _is_variable(facts: Facts, node: ast.expr, choice: DeviceChoice) -> bool:
    target = choice.target
    if isinstance(target, ast.Attribute):
        return isinstance(node, ast.Attribute) and node.attr == target.attr
    return isinstance(node, ast.Name) and node.id == ast.unparse(target) and facts.scope(node).owner(node.id) is choice.scope


def _serves(facts: Facts, node: ast.expr, choice: DeviceChoice, choices: list[DeviceChoice]) -> bool:
    """Whether a `torch.device` serves this use of `node` just as well, or it is only passed on."""
    parent = facts.parents[node]
    if isinstance(parent, ast.keyword):
        return _takes_keyword(facts, facts.parents[parent], parent)
    if isinstance(parent, ast.Call):
        return parent.func is not node and _takes(facts, parent, choice)
    if isinstance(parent, ast.FormattedValue):
        return parent.format_spec is None and is_numbered(choice)
    if isinstance(parent, ast.Compare):
        by_identity = all(isinstance(op, ast.Is | ast.IsNot) for op in parent.ops)
        return by_identity or is_compared_by_type(facts, node, choices) is not None
    if isinstance(parent, ast.Assign | ast.AnnAssign):
        targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
        return all(isinstance(t, ast.Name | ast.Attribute) for t in targets)
    return isinstance(parent, ast.Return | ast.IfExp | ast.BoolOp | ast.NamedExpr | ast.If | ast.Expr) or _is_negated(parent)


def _is_negated(parent: ast.AST) -> bool:
    return isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not)


def _takes(facts: Facts, call: ast.Call, choice: DeviceChoice) -> bool:
    """Whether `call` takes a device as well as its name by position."""
    if facts.callees.get(call):
        return _names_its_parameters(facts, call)
    name = _name(facts, call)
    if name in SHOWN:
        return is_numbered(choice)
    return _moves(call) or name in TAKE_BOTH or name.startswith("torch.cuda.")


def _takes_keyword(facts: Facts, call: ast.AST, keyword: ast.keyword) -> bool:
    if not isinstance(call, ast.Call) or keyword.arg is None:
        return False
    if facts.callees.get(call):
        return _names_its_parameters(facts, call)
    name = _name(facts, call)
    if keyword.arg not in {"device", "map_location"} or name.startswith(STRINGS_ONLY):
        return False
    return name.startswith("torch.") or _moves(call) or (isinstance(call.func, ast.Attribute) and call.func.attr.startswith("new_"))


def _moves(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in {"to", "to_empty"}


def _name(facts: Facts, call: ast.Call) -> str:
    return facts.external.get(call, "") or ast.unparse(call.func)


def _names_its_parameters(facts: Facts, call: ast.Call) -> bool:
    """Whether what `call` passes can be followed into the functions that it calls."""
    for function in facts.callees[call]:
        if not isinstance(function, FunctionNode) or function.args.vararg is not None or function.args.kwarg is not None:
            return False
        if not parameters(function):
            return False
    return True
