"""Expressions of the script as they can be written where the accelerator is made.

`GradScaler(enabled=args.amp)` stands deep in a training function, `Accelerator(mixed_precision=...)` in `main`: the
parameters on the way are followed to what the callers pass, and variables that are bound too late to their values.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from accel_migrate.context import Context
from accel_migrate.facts import catalog
from accel_migrate.facts.home import end_of_bindings
from accel_migrate.facts.scopes import Scope
from accel_migrate.facts.values import Role

PLAIN = (ast.BoolOp, ast.UnaryOp, ast.Compare, ast.IfExp, ast.BinOp, ast.Subscript, ast.Dict, ast.Tuple, ast.List)
MAX_STEPS = 12


class NotAtHome(Exception):
    """What the expression reads is not known where the accelerator is made."""


def at_home(context: Context, node: ast.expr) -> str:
    """`node` as text for an argument of `Accelerator(...)`, which is then made after what the text reads is bound.

    Raises:
        NotAtHome: it cannot be written there.
    """
    resolver = _Resolver(context)
    text = ast.unparse(ast.fix_missing_locations(resolver.rebuilt(node, 0)))
    home = context.home
    home.earliest = max(home.earliest, end_of_bindings(home, resolver.names))
    return text


class _Resolver:
    def __init__(self, context: Context) -> None:
        self.context = context
        self.facts = context.facts
        self.names: set[str] = set()
        """Variables of the home's scope that the text reads."""

    def rebuilt(self, node: ast.expr, step: int) -> ast.expr:
        if step > MAX_STEPS:
            raise NotAtHome
        if self._asks_for_device(node):
            return ast.parse("torch.cuda.is_available()", mode="eval").body
        if isinstance(node, ast.Constant):
            return node
        if isinstance(node, ast.Name):
            return self._name(node, step)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, step)
        if isinstance(node, ast.Call) and self.facts.external.get(node) in catalog.AVAILABILITY | {"torch.cuda.is_bf16_supported"}:
            return node
        if isinstance(node, PLAIN):
            return self._parts(node, step)
        raise NotAtHome

    def _parts(self, node: ast.expr, step: int) -> ast.expr:
        fields = {}
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                value = self.rebuilt(value, step + 1)
            elif isinstance(value, list):
                value = [self.rebuilt(v, step + 1) if isinstance(v, ast.expr) else v for v in value]
            fields[name] = value
        return type(node)(**fields)

    def _asks_for_device(self, node: ast.expr) -> bool:
        """`device.type == "cuda"`, `device == "cuda"`, `str(device) != "cpu"`, `"cuda" in device`."""
        if not isinstance(node, ast.Compare) or len(node.ops) != 1:
            return False
        if isinstance(node.ops[0], ast.In) and isinstance(node.left, ast.Constant) and node.left.value == "cuda":
            return self.facts.has_role(node.comparators[0], Role.DEVICE)
        if not isinstance(node.comparators[0], ast.Constant):
            return False
        wanted = {ast.Eq: "cuda", ast.NotEq: "cpu"}.get(type(node.ops[0]))
        return node.comparators[0].value == wanted and any(self.facts.has_role(n, Role.DEVICE) for n in ast.walk(node.left))

    def _attribute(self, node: ast.Attribute, step: int) -> ast.expr:
        scope = self.facts.scope(node)
        owner = scope.enclosing_class
        if owner is not None and isinstance(node.value, ast.Name) and isinstance(owner.node, ast.ClassDef) and _is_receiver(scope, node.value.id):
            return self.rebuilt(_only_value(owner.node, ast.unparse(node)), step + 1)
        return ast.Attribute(self.rebuilt(node.value, step + 1), node.attr, ast.Load())

    def _name(self, node: ast.Name, step: int) -> ast.expr:
        scope = self.facts.scope(node).owner(node.id)
        home = self.context.home
        if scope is None or (scope is not home.scope and _encloses(scope, home.scope)):
            return node
        if scope is home.scope and (_is_parameter(scope, node.id) or self._bound_before(node.id)):
            self.names.add(node.id)
            return node
        if scope is not home.scope and _is_parameter(scope, node.id):
            return self._passed(scope, node.id, step)
        value = _only_value(scope.node, node.id)
        if is_overridden(self.context, value):
            raise NotAtHome
        return self.rebuilt(value, step + 1)

    def _bound_before(self, name: str) -> bool:
        limit = self.context.home.anchor.lineno
        stores = [n for n in ast.walk(self.context.home.scope.node) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)]
        imported = [n for n in ast.walk(self.context.home.scope.node) if isinstance(n, ast.alias) and (n.asname or n.name.split(".")[0]) == name]
        return bool(imported) or any(n.lineno < limit for n in stores)

    def _passed(self, scope: Scope, name: str, step: int) -> ast.expr:
        """What all callers of a function pass for its parameter `name`."""
        function = scope.node
        if not isinstance(function, ast.FunctionDef):
            raise NotAtHome
        place = next((i for i, a in enumerate(function.args.args) if a.arg == name), None)
        if place is None:
            raise NotAtHome
        given = [self._given(call, function, place) for call in self.facts.callers.get(function, {})]
        texts = {ast.unparse(self.rebuilt(g, step + 1)) for g in given}
        if len(texts) != 1:
            raise NotAtHome
        return ast.parse(texts.pop(), mode="eval").body

    def _given(self, call: ast.Call, function: ast.FunctionDef, place: int) -> ast.expr:
        given = self.context.accelerator.argument(call, function, place)
        if given is not None and not isinstance(given, ast.Starred):
            return given
        default = place - len(function.args.args) + len(function.args.defaults)
        if default < 0:
            raise NotAtHome
        return function.args.defaults[default]


def is_overridden(context: Context, value: ast.expr) -> bool:
    """Whether a variable of the module may have another value than the `value` it got: an `exec` follows, as of a file of settings."""
    facts = context.facts
    in_module = isinstance(facts.scope(value).node, ast.Module)
    return in_module and any(facts.source(n) is facts.source(value) and n.lineno > value.lineno for n in execs(context))


def execs(context: Context) -> list[ast.Call]:
    """The calls of `exec`, which may bind any variable."""
    return [n for _, n in context.facts.nodes(ast.Call) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "exec"]


def _only_value(node: ast.AST, text: str) -> ast.expr:
    """The one value that is assigned to `text` inside `node`."""
    found = [n.value for n in _assignments(node) if ast.unparse(n.targets[0]) == text]
    if len(found) != 1:
        raise NotAtHome
    return found[0]


def _assignments(node: ast.AST) -> Iterable[ast.Assign]:
    return (n for n in ast.walk(node) if isinstance(n, ast.Assign) and len(n.targets) == 1)


def _is_parameter(scope: Scope, name: str) -> bool:
    arguments = getattr(scope.node, "args", None)
    return isinstance(arguments, ast.arguments) and any(a.arg == name for a in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs])


def _is_receiver(scope: Scope, name: str) -> bool:
    arguments = getattr(scope.node, "args", None)
    return isinstance(arguments, ast.arguments) and bool(arguments.args) and arguments.args[0].arg == name


def _encloses(outer: Scope, inner: Scope) -> bool:
    scope: Scope | None = inner
    while scope is not None and scope is not outer:
        scope = scope.parent
    return scope is outer
