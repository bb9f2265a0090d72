"""Where the accelerator is made: where the script chose its device, or, without one, where it makes its first optimizer."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from accel_migrate.facts import catalog
from accel_migrate.facts.classes import role_of_class
from accel_migrate.facts.distributed import is_distributed, start_of
from accel_migrate.facts.facts import Facts
from accel_migrate.facts.scopes import Scope
from accel_migrate.facts.values import Made, Role
from accel_migrate.source import Source


@dataclass(eq=False)
class DeviceChoice:
    """A statement which chooses a device: `device = torch.device(...)`, or an `if` whose branches do nothing else."""

    statement: ast.stmt
    target: ast.expr
    value: ast.expr
    scope: Scope


@dataclass(eq=False)
class Home:
    """The place where the accelerator is made."""

    scope: Scope
    anchor: ast.stmt
    """The statement that it replaces (a device choice) or precedes (the first optimizer or model)."""
    device: DeviceChoice | None
    others: list[DeviceChoice] = field(default_factory=list)
    """Further device choices elsewhere."""
    attribute: bool = False
    """Whether it is kept as `self.accelerator`."""
    cpu: str = ""
    """The condition under which the script stays on the CPU."""
    earliest: tuple[int, int] = (0, 0)
    """Line and column before which it cannot be made, because what `cpu` reads is not there yet."""

    @property
    def source(self) -> Source:
        return self.scope.source


def find_home(facts: Facts) -> Home | None:
    """The home of the accelerator; None where nothing is trained."""
    anchor = _first_binding(facts, Role.OPTIMIZER) or _first_binding(facts, Role.MODEL)
    if anchor is None or not facts.backwards:
        return None
    if is_distributed(facts):
        start = start_of(facts, anchor[1])
        if start is not None:
            return Home(anchor[1], start, None, [])
    choices = device_choices(facts)
    if choices:
        scopes = [b.scope for b in facts.bindings if any(facts.role(v) is Role.OPTIMIZER for v in b.values)]
        first = next((c for c in choices if c.scope in scopes), choices[0])
        attribute = isinstance(first.target, ast.Attribute) and _is_self(facts, first.target, first.scope)
        home = Home(first.scope, first.statement, first, [c for c in choices if c is not first], attribute, wants_cpu(facts, first))
        home.earliest = _earliest(home)
        return home
    statement, scope = anchor
    models = [b for b in facts.bindings if b.scope is scope and any(facts.role(v) is Role.MODEL for v in b.values)]
    earliest = min([statement, *(b.statement for b in models)], key=lambda s: (s.lineno, s.col_offset))
    cls = scope.enclosing_class
    attribute = cls is not None and getattr(scope.node, "name", "") == "__init__"
    return Home(scope, earliest, None, [], attribute)


def _earliest(home: Home) -> tuple[int, int]:
    """The end of the last statement, up to the device choice, that binds what the accelerator's arguments read."""
    names = {n.id for n in ast.walk(ast.parse(home.cpu or "0", mode="eval")) if isinstance(n, ast.Name)}
    limit = (home.anchor.lineno, home.anchor.col_offset)
    earliest = (0, 0)
    body = home.scope.node.body  # type: ignore[attr-defined]
    for statement in body:
        bound = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        if bound & names and (statement.lineno, statement.col_offset) < limit:
            earliest = (statement.end_lineno or 0, statement.end_col_offset or 0)
    return earliest


def _first_binding(facts: Facts, role: Role) -> tuple[ast.stmt, Scope] | None:
    for binding in facts.bindings:
        if any(facts.role(v) is role for v in binding.values) and not _in_model(facts, binding.scope):
            return binding.statement, binding.scope
    return None


def _in_model(facts: Facts, scope: Scope) -> bool:
    cls = scope.enclosing_class
    return cls is not None and isinstance(cls.node, ast.ClassDef) and role_of_class(facts, cls.node) in {Role.MODEL, Role.CRITERION}


def _is_self(facts: Facts, target: ast.Attribute, scope: Scope) -> bool:
    node = scope.node
    if scope.enclosing_class is None or not isinstance(node, ast.FunctionDef) or not node.args.args:
        return False
    return isinstance(target.value, ast.Name) and target.value.id == node.args.args[0].arg


def device_choices(facts: Facts) -> list[DeviceChoice]:
    """Every statement that chooses a device, in the order of execution, each once."""
    found: dict[ast.stmt, DeviceChoice] = {}
    for binding in facts.bindings:
        statement = binding.statement
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or statement.targets[0] is not binding.target:
            continue
        if chooses_device(facts, statement.value) and not _in_model(facts, binding.scope):
            outer = _whole_choice(facts, statement)
            if outer not in found:
                found[outer] = DeviceChoice(outer, binding.target, statement.value, binding.scope)
    return list(found.values())


def chooses_device(facts: Facts, value: ast.expr) -> bool:
    """Whether `value` makes a device, and is not just another name for one."""
    sites = [v.site for v in facts.of(value) if isinstance(v, Made) and v.role is Role.DEVICE]
    inside = {id(node) for node in ast.walk(value)}
    if not any(id(site) in inside for site in sites):
        return False
    return isinstance(value, ast.Call | ast.IfExp | ast.Constant | ast.JoinedStr | ast.BoolOp)


def _whole_choice(facts: Facts, statement: ast.stmt) -> ast.stmt:
    """The outermost `if`/`elif`/`else` around `statement` whose every leaf assigns the same target a device."""
    target = ast.unparse(statement.targets[0])  # type: ignore[attr-defined]
    outer = statement
    while isinstance(parent := facts.parents[outer], ast.If) and _only_chooses(parent, target):
        outer = parent
    return outer


def _only_chooses(node: ast.If, target: str) -> bool:
    for inner in (*node.body, *node.orelse):
        if isinstance(inner, ast.If):
            if not _only_chooses(inner, target):
                return False
        elif isinstance(inner, ast.Assign) and ast.unparse(inner.targets[0]) == target:
            continue
        elif not (isinstance(inner, ast.Expr) and _is_notice(inner.value)):
            return False
    return True


def _is_notice(value: ast.expr) -> bool:
    """Settings of a backend or of the current device, which need no branch of their own."""
    if not isinstance(value, ast.Call):
        return False
    name = ast.unparse(value.func)
    return name.startswith("torch.backends.") or name.endswith((".set_device", ".set_device_index"))


def wants_cpu(facts: Facts, choice: DeviceChoice) -> str:
    """The condition under which the script stays on the CPU although there is an accelerator; empty if there is none.

    `torch.device("cuda" if torch.cuda.is_available() and not args.no_cuda else "cpu")` gives `args.no_cuda`.
    """
    test = _test_of(choice)
    if test is not None:
        terms = _terms(facts, test, choice.scope, set())
        return " or ".join(dict.fromkeys(terms))
    value = choice.value
    argument = value.args[0] if isinstance(value, ast.Call) and value.args else None
    if isinstance(argument, ast.Attribute | ast.Name) and not facts.has_role(argument, Role.DEVICE):
        return f'{ast.unparse(argument)} == "cpu"'
    return ""


def _test_of(choice: DeviceChoice) -> ast.expr | None:
    if isinstance(choice.statement, ast.If):
        return choice.statement.test
    for node in ast.walk(choice.value):
        if isinstance(node, ast.IfExp):
            return node.test
    return None


def _terms(facts: Facts, test: ast.expr, scope: Scope, seen: set[str]) -> list[str]:
    """The user's own conditions in `test`, each as the condition for staying on the CPU."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return [term for value in test.values for term in _terms(facts, value, scope, seen)]
    if asks_for_devices(facts, test):
        return []
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return [ast.unparse(test.operand)]
    definition = _definition(facts, test, scope)
    if definition is not None and ast.unparse(test) not in seen and _mentions_availability(facts, definition):
        return _terms(facts, definition, scope, seen | {ast.unparse(test)})
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.IsNot | ast.NotEq):
        return [ast.unparse(test).replace(" is not ", " is ").replace(" != ", " == ")]
    return [f"not {ast.unparse(test)}" if isinstance(test, ast.Name | ast.Attribute | ast.Call) else f"not ({ast.unparse(test)})"]


def asks_for_devices(facts: Facts, test: ast.expr) -> bool:
    """Whether `test` only asks whether there are devices."""
    if isinstance(test, ast.Compare):
        return asks_for_devices(facts, test.left)
    return isinstance(test, ast.Call) and (facts.external.get(test, "") or ast.unparse(test.func)) in catalog.AVAILABILITY


def _mentions_availability(facts: Facts, value: ast.expr) -> bool:
    return any(isinstance(n, ast.Call) and asks_for_devices(facts, n) for n in ast.walk(value))


def _definition(facts: Facts, test: ast.expr, scope: Scope) -> ast.expr | None:
    """The one expression that is assigned to the name or attribute `test` in its function."""
    text = ast.unparse(test)
    found = [n.value for n in ast.walk(scope.node) if isinstance(n, ast.Assign) and len(n.targets) == 1 and ast.unparse(n.targets[0]) == text]
    return found[0] if len(found) == 1 and isinstance(test, ast.Name | ast.Attribute) else None
