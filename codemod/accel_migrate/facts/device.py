"""Where a script chooses its device, and under which condition it stays on the CPU."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from accel_migrate.facts import catalog
from accel_migrate.facts.classes import role_of_class
from accel_migrate.facts.facts import Facts
from accel_migrate.facts.scopes import Scope
from accel_migrate.facts.values import Made, Ref, Role


@dataclass(eq=False)
class DeviceChoice:
    """A statement which chooses a device: `device = torch.device(...)`, or an `if` whose branches do nothing else."""

    statement: ast.stmt
    target: ast.expr
    value: ast.expr
    scope: Scope


def device_choices(facts: Facts) -> list[DeviceChoice]:
    """Every statement that chooses a device, in the order of execution, each once."""
    found: dict[ast.stmt, DeviceChoice] = {}
    for binding in facts.bindings:
        statement = binding.statement
        if (
            not isinstance(statement, ast.Assign)
            or len(statement.targets) != 1
            or statement.targets[0] is not binding.target
        ):
            continue
        if chooses_device(facts, statement.value) and not in_model_class(facts, binding.scope):
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

    `torch.device("cuda" if torch.cuda.is_available() and not args.no_cuda else "cpu")` gives `args.no_cuda`;
    `if cfg.device == "auto": device = ... else: device = cfg.device` gives `cfg.device == "cpu"`.
    """
    setting = _chosen_setting(facts, choice)
    if setting is not None:
        return f'{ast.unparse(setting)} == "cpu"'
    test = _test_of(choice)
    if test is not None:
        terms = _terms_for_cpu(facts, test, choice.scope) if _takes_cpu_first(choice) else _terms(facts, test, choice.scope, set())
        return " or ".join(dict.fromkeys(terms))
    value = choice.value
    argument = value.args[0] if isinstance(value, ast.Call) and value.args else None
    if isinstance(argument, ast.Attribute | ast.Name) and not facts.has_role(argument, Role.DEVICE):
        return f'{ast.unparse(argument)} == "cpu"'
    return ""


def _chosen_setting(facts: Facts, choice: DeviceChoice) -> ast.expr | None:
    """The user's own setting, where a branch of the choice takes it as it is."""
    target = ast.unparse(choice.target)
    chosen = ast.walk(choice.statement) if isinstance(choice.statement, ast.If) else ()
    values = [n.value for n in chosen if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == target]
    return next(
        (v for v in values if isinstance(v, ast.Attribute | ast.Name) and not facts.has_role(v, Role.DEVICE)), None
    )


def asked_for_cpu(facts: Facts, scope: Scope) -> str:
    """The condition under which a script that chooses no device stays on the CPU.

    `.to(args.device)` of a model gives `args.device == "cpu"`; `if args.cuda: model.cuda()` gives `not args.cuda`.
    """
    for _, call in facts.nodes(ast.Call):
        assert isinstance(call, ast.Call)
        if (
            not isinstance(call.func, ast.Attribute)
            or call.func.attr not in {"to", "cuda"}
            or not facts.has_role(call.func.value, Role.MODEL)
        ):
            continue
        guard = facts.parents[facts.statement(call)]
        if isinstance(guard, ast.If) and _goes_to_cuda(call) and (facts.scope(call) is scope or _same_settings(facts, guard.test, scope)):
            return " or ".join(dict.fromkeys(_terms(facts, guard.test, scope, set())))
        setting = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "device"), None)
        if isinstance(setting, ast.Name):
            setting = _definition(facts, setting, scope) or setting
        if facts.scope(call) is scope and isinstance(setting, ast.Attribute) and _is_parsed(facts, setting.value):
            return f'{ast.unparse(setting)} == "cpu"'
    return ""


def _goes_to_cuda(call: ast.Call) -> bool:
    """`model.cuda()`, `model.to("cuda:0")`."""
    assert isinstance(call.func, ast.Attribute)
    named = any(isinstance(a, ast.Constant) and str(a.value).startswith("cuda") for a in ast.walk(call))
    return call.func.attr == "cuda" or named


def _same_settings(facts: Facts, test: ast.expr, scope: Scope) -> bool:
    """Whether all that `test` asks of are settings of the command line that `scope` knows under the same name."""
    asked = [n.id for n in ast.walk(test) if isinstance(n, ast.Name) and not any(isinstance(v, Ref) for v in facts.of(n))]
    parsed = {n.id for n in ast.walk(test) if isinstance(n, ast.Name) and _is_parsed(facts, n)}
    return bool(asked) and set(asked) <= parsed and all(scope.owner(name) is not None for name in asked)


def _is_parsed(facts: Facts, node: ast.expr) -> bool:
    """Whether `node` holds what the user gave on the command line."""
    return any(
        isinstance(v, Made) and v.role is Role.NAMESPACE and not v.detail.endswith("Namespace") for v in facts.of(node)
    )


def _test_of(choice: DeviceChoice) -> ast.expr | None:
    if isinstance(choice.statement, ast.If):
        return choice.statement.test
    for node in ast.walk(choice.value):
        if isinstance(node, ast.IfExp):
            return node.test
    return None


def _takes_cpu_first(choice: DeviceChoice) -> bool:
    """Whether the CPU is what is taken where the test of `choice` holds: `"cpu" if args.no_cuda else "cuda"`."""
    if isinstance(choice.statement, ast.If):
        target = ast.unparse(choice.target)
        assigns = (n for s in choice.statement.body for n in ast.walk(s) if isinstance(n, ast.Assign))
        taken: list[ast.AST] = [n.value for n in assigns if ast.unparse(n.targets[0]) == target]
    else:
        taken = [n.body for n in ast.walk(choice.value) if isinstance(n, ast.IfExp)][:1]
    names = {n.value for value in taken for n in ast.walk(value) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    return names == {"cpu"}


def _terms_for_cpu(facts: Facts, test: ast.expr, scope: Scope) -> list[str]:
    """The user's own conditions in `test`, which takes the CPU where one of them holds."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        return [term for value in test.values for term in _terms_for_cpu(facts, value, scope)]
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _terms(facts, test.operand, scope, set())
    if asks_for_devices(facts, test) or _asks_a_device(facts, test):
        return []
    return [ast.unparse(test)]


def _terms(facts: Facts, test: ast.expr, scope: Scope, seen: set[str]) -> list[str]:
    """The user's own conditions in `test`, each as the condition for staying on the CPU."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return [term for value in test.values for term in _terms(facts, value, scope, seen)]
    if asks_for_devices(facts, test) or _asks_a_device(facts, test):
        return []
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return [ast.unparse(test.operand)]
    definition = _definition(facts, test, scope)
    if definition is not None and ast.unparse(test) not in seen and _mentions_availability(facts, definition):
        return _terms(facts, definition, scope, seen | {ast.unparse(test)})
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.IsNot | ast.NotEq):
        return [ast.unparse(test).replace(" is not ", " is ").replace(" != ", " == ")]
    return [
        f"not {ast.unparse(test)}"
        if isinstance(test, ast.Name | ast.Attribute | ast.Call)
        else f"not ({ast.unparse(test)})"
    ]


def asks_for_devices(facts: Facts, test: ast.expr) -> bool:
    """Whether `test` only asks whether there are devices."""
    if isinstance(test, ast.Compare):
        return asks_for_devices(facts, test.left)
    return (
        isinstance(test, ast.Call) and (facts.external.get(test, "") or ast.unparse(test.func)) in catalog.AVAILABILITY
    )


def _asks_a_device(facts: Facts, test: ast.expr) -> bool:
    """Whether `test` only asks what another device is, as in `"cuda" in device`."""
    return any(isinstance(n, ast.Name | ast.Attribute) and facts.has_role(n, Role.DEVICE) for n in ast.walk(test))


def _mentions_availability(facts: Facts, value: ast.expr) -> bool:
    return any(isinstance(n, ast.Call) and asks_for_devices(facts, n) for n in ast.walk(value))


def _definition(facts: Facts, test: ast.expr, scope: Scope) -> ast.expr | None:
    """The one expression that is assigned to the name or attribute `test` in its function."""
    text = ast.unparse(test)
    found = [
        n.value
        for n in ast.walk(scope.node)
        if isinstance(n, ast.Assign) and len(n.targets) == 1 and ast.unparse(n.targets[0]) == text
    ]
    return found[0] if len(found) == 1 and isinstance(test, ast.Name | ast.Attribute) else None


def in_model_class(facts: Facts, scope: Scope) -> bool:
    cls = scope.enclosing_class
    return (
        cls is not None
        and isinstance(cls.node, ast.ClassDef)
        and role_of_class(facts, cls.node) in {Role.MODEL, Role.CRITERION}
    )
