"""Where the accelerator is made: where the script chose its device, or else where it makes what is trained.

A script may offer several places. They are tried in order; the first from which every training loop can be reached
is the home.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from accel_migrate.facts.accelerated import binding_of_accelerator
from accel_migrate.facts.device import DeviceChoice, asked_for_cpu, device_choices, in_model_class, wants_cpu
from accel_migrate.facts.distributed import is_distributed, start_of
from accel_migrate.facts.facts import Binding, Facts
from accel_migrate.facts.scopes import FunctionNode, Scope, parameters
from accel_migrate.facts.values import Instance, Made, Role
from accel_migrate.source import Source


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
    existing: bool = False
    """Whether `anchor` makes the accelerator already."""
    earliest: tuple[int, int] = (0, 0)
    """Line and column before which it cannot be made, because what `cpu` reads is not there yet."""

    @property
    def choices(self) -> list[DeviceChoice]:
        """All choices of a device that the accelerator takes over."""
        return [*([self.device] if self.device is not None else []), *self.others]

    @property
    def source(self) -> Source:
        return self.scope.source


def possible_homes(facts: Facts) -> Iterator[Home]:
    """Places for the accelerator, the most natural one first; none where nothing is trained."""
    makers = _maker_scopes(facts)
    if not makers or not facts.backwards:
        return
    choices = device_choices(facts)
    made = binding_of_accelerator(facts)
    if made is not None:
        yield Home(made.scope, made.statement, None, choices, existing=True, earliest=(made.statement.end_lineno or 0, made.statement.end_col_offset or 0))
        return
    if is_distributed(facts):
        for scope in (*makers, *_callers(facts, makers)):
            start = start_of(facts, scope)
            if start is not None:
                yield _at_start(facts, scope, start, choices)
    for choice in sorted(choices, key=lambda c: c.scope not in makers):
        yield _at_choice(facts, choice, choices)
    for scope in makers:
        yield _at_maker(facts, scope, choices)
    functions = {s.node for s in makers}
    for scope in _callers(facts, makers):
        statement = first_reaching(facts, scope.node.body, functions)  # type: ignore[attr-defined]
        if statement is not None:
            yield Home(scope, statement, None, choices)


def _maker_scopes(facts: Facts) -> list[Scope]:
    """Scopes that make optimizers (or take them from a function that does), then those of models."""
    found: dict[Scope, None] = {}
    for role in (Role.OPTIMIZER, Role.MODEL):
        for binding in facts.bindings:
            if any(facts.role(v) is role for v in binding.values) and not in_model_class(facts, binding.scope):
                found[binding.scope] = None
    return [s for s in found if not _is_never_called(facts, s)] or list(found)


def _is_never_called(facts: Facts, scope: Scope) -> bool:
    """Whether `scope` is a function of an imported file that this program does not call: another script's `main`."""
    node = scope.node
    if not isinstance(node, ast.FunctionDef) or scope.source is facts.entry or scope.enclosing_class is not None:
        return False
    return not facts.callers.get(node) and node not in facts.called_back


def _at_choice(facts: Facts, choice: DeviceChoice, choices: list[DeviceChoice]) -> Home:
    attribute = isinstance(choice.target, ast.Attribute) and _is_self(choice.target, choice.scope)
    others = [c for c in choices if c is not choice]
    home = Home(choice.scope, choice.statement, choice, others, attribute, wants_cpu(facts, choice))
    home.earliest = _earliest(home)
    return home


def _at_start(facts: Facts, scope: Scope, start: ast.stmt, choices: list[DeviceChoice]) -> Home:
    """Where the script made its process group."""
    home = Home(scope, start, None, choices)
    wanted = [text for choice in choices if choice.scope is scope and (text := wants_cpu(facts, choice))]
    home.cpu = wanted[0] if wanted and _is_known_before(scope, start, wanted[0]) else ""
    home.earliest = _earliest(home)
    return home


def _is_known_before(scope: Scope, start: ast.stmt, text: str) -> bool:
    """Whether the names in `text` have their values above `start`."""
    names = {n.id for n in ast.walk(ast.parse(text, mode="eval")) if isinstance(n, ast.Name)}
    arguments = {a.arg for a in parameters(scope.node)} if isinstance(scope.node, FunctionNode) else set()
    bound = {n.id for s in scope.node.body if s.lineno < start.lineno for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}  # type: ignore[attr-defined]
    return names <= arguments | bound


def _at_maker(facts: Facts, scope: Scope, choices: list[DeviceChoice]) -> Home:
    made = [s for b in facts.bindings if b.scope is scope for s in _making(facts, b)]
    attribute = scope.enclosing_class is not None and getattr(scope.node, "name", "") == "__init__"
    home = Home(scope, min(made, key=lambda s: (s.lineno, s.col_offset)), None, choices, attribute)
    wanted = "" if choices else asked_for_cpu(facts, scope)
    home.cpu = wanted if wanted and (_is_from_outside(scope, wanted) or _is_known_before(scope, home.anchor, wanted)) else ""
    home.earliest = _earliest(home)
    return home


def _making(facts: Facts, binding: Binding) -> list[ast.stmt]:
    """The statement of `binding` if it binds a model or optimizer, and those of its scope that make them: `nets = [Net(), Net()]`."""
    trained = [v for v in binding.values if facts.role(v) in {Role.MODEL, Role.OPTIMIZER}]
    sites = [v.site for v in trained if isinstance(v, Made | Instance) and isinstance(v.site, ast.Call) and facts.scope(v.site) is binding.scope]
    return [binding.statement, *map(facts.statement, sites)] if trained else []


def _is_from_outside(scope: Scope, text: str) -> bool:
    """Whether the names in `text` belong to the scopes around `scope`."""
    owners = [scope.owner(n.id) for n in ast.walk(ast.parse(text, mode="eval")) if isinstance(n, ast.Name)]
    return all(owner is not None and owner is not scope for owner in owners)


def _callers(facts: Facts, scopes: list[Scope]) -> list[Scope]:
    """The scopes from which `scopes` are called, nearest first."""
    found: dict[Scope, None] = {}
    pending = list(scopes)
    while pending:
        scope = pending.pop(0)
        nodes = [scope.node]
        if scope.enclosing_class is not None:
            nodes += [s.node for s in scope.enclosing_class.children.values() if getattr(s.node, "name", "") == "__init__"]
        for node in nodes:
            for caller in facts.callers.get(node, {}).values():  # type: ignore[arg-type]
                if caller not in found and caller not in scopes:
                    found[caller] = None
                    pending.append(caller)
    return list(found)


def first_reaching(facts: Facts, block: list[ast.stmt], functions: set[ast.AST]) -> ast.stmt | None:
    """The first statement of `block` (or of the main guard in it) from which one of `functions` is called."""
    for statement in block if isinstance(block, list) else ():  # that of a lambda is an expression
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            continue
        if isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test):
            inner = first_reaching(facts, statement.body, functions)
            if inner is not None:
                return inner
        elif _reaches(facts, statement, functions, set()):
            return statement
    return None


def _reaches(facts: Facts, node: ast.AST, functions: set[ast.AST], seen: set[ast.AST]) -> bool:
    for call in ast.walk(node):
        for callee in facts.callees.get(call, ()) if isinstance(call, ast.Call) else ():
            if callee in functions:
                return True
            if callee not in seen:
                seen.add(callee)
                if _reaches(facts, callee, functions, seen):
                    return True
    return False


def _earliest(home: Home) -> tuple[int, int]:
    """The end of the last statement, up to the device choice, that binds what the accelerator's arguments read."""
    return end_of_bindings(home, {n.id for n in ast.walk(ast.parse(home.cpu or "0", mode="eval")) if isinstance(n, ast.Name)})


def end_of_bindings(home: Home, names: set[str]) -> tuple[int, int]:
    """The end of the last statement, up to the home's anchor, that binds one of `names`."""
    limit = (home.anchor.lineno, home.anchor.col_offset)
    earliest = (0, 0)
    for statement in _statements_around(home.scope.node.body, home.anchor):  # type: ignore[attr-defined]
        bound = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        if bound & names and (statement.lineno, statement.col_offset) < limit:
            earliest = max(earliest, (statement.end_lineno or 0, statement.end_col_offset or 0))
    return earliest


def _statements_around(block: list[ast.stmt], anchor: ast.stmt) -> Iterator[ast.stmt]:
    """The statements of `block`; in place of the one that holds `anchor`, those of its own blocks."""
    for statement in block:
        if statement is not anchor and any(node is anchor for node in ast.walk(statement)):
            for name in ("body", "orelse", "finalbody"):
                yield from _statements_around(getattr(statement, name, []), anchor)
        else:
            yield statement


def _is_self(target: ast.Attribute, scope: Scope) -> bool:
    node = scope.node
    if scope.enclosing_class is None or not isinstance(node, ast.FunctionDef) or not node.args.args:
        return False
    return isinstance(target.value, ast.Name) and target.value.id == node.args.args[0].arg
