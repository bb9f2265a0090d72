"""How each place of the program gets at the accelerator: a variable, an attribute, a parameter.

Rules write `ACCELERATOR` in their templates. Here it becomes `accelerator` or `self.accelerator`, and the functions
on the way from the accelerator's home to that place get a parameter, at their call sites too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from accel_migrate.edits import (
    AddArgument,
    AddImport,
    AddParameter,
    Edit,
    InsertAfter,
    InsertBefore,
    RemoveArgument,
    RenameParameter,
    ReplaceExpression,
)
from accel_migrate.facts.classes import ancestry, find_method
from accel_migrate.facts.facts import Facts
from accel_migrate.facts.givers import fills_default, givers, handed_on, why_not_all_known
from accel_migrate.facts.home import Home
from accel_migrate.facts.models import enclosing_model
from accel_migrate.facts.scopes import Scope
from accel_migrate.facts.values import Role

RULE = "accelerator"
NAME = "accelerator"


class Unreachable(Exception):
    """The accelerator cannot be passed to where it is needed; its text says why."""


@dataclass(eq=False)
class Access:
    """Resolves places to expressions for the accelerator, and collects what must be passed on for that."""

    facts: Facts
    home: Home
    parameters: dict[ast.FunctionDef, ast.arg | None] = field(default_factory=dict)
    """Functions that get a parameter -> the device parameter that it replaces."""
    holders: set[ast.ClassDef] = field(default_factory=set)
    """Classes whose instances get the attribute `accelerator`."""
    uses: list[ast.AST] = field(default_factory=list)
    """Places in the home's own function at which the accelerator is read."""
    imports: set[Scope] = field(default_factory=set)
    failed: dict[ast.AST, str] = field(default_factory=dict)
    """Functions that cannot get it -> why."""

    def __call__(self, node: ast.AST) -> str:
        """The accelerator as it is called at `node`.

        Raises:
            Unreachable: `node` stands in a function whose callers are not all known, or in a model.
        """
        facts, home = self.facts, self.home
        scope = self._function_scope(facts.scope(node))
        if enclosing_model(facts, node) is not None and not self._sees_home(scope):
            raise Unreachable("models and losses are not given it")
        if home.attribute:
            owner = home.scope.enclosing_class
            self._use(node, scope)
            cls = scope.enclosing_class
            if cls is not None and owner is not None and self._inherits(cls, owner):
                return f"{self._self_name(scope)}.{NAME}"
            return self._passed(scope)
        if self._sees_home(scope):
            self._use(node, scope)
            self._use_by_calls(scope, set())
            return NAME
        if home.scope.parent is None and home.source.module != "__main__" and home.source is not self.facts.entry:
            self.imports.add(scope.module)
            return NAME
        return self._passed(scope)

    def is_at_hand(self, node: ast.AST) -> bool:
        """Whether the accelerator can be read at `node` without passing it to one more function."""
        return self._tried(node) == 0

    def is_reachable(self, node: ast.AST) -> bool:
        """Whether the accelerator can be had at `node`; nothing is passed on for that yet."""
        return self._tried(node) is not None

    def _tried(self, node: ast.AST) -> int | None:
        """To how many more functions and classes the accelerator must be passed for `node`; None if it cannot be had."""
        before = (dict(self.parameters), set(self.holders), list(self.uses), set(self.imports), dict(self.failed))
        try:
            self(node)
        except Unreachable:
            return None
        finally:
            grown = len(self.parameters) - len(before[0]) + len(self.holders) - len(before[1])
            self.parameters, self.holders, self.uses, self.imports, self.failed = before
        return grown

    def _use(self, node: ast.AST, scope: Scope) -> None:
        """Notes a place in the home's own function: the accelerator must be made before it."""
        if scope is not self.home.scope:
            return
        if (node.lineno, node.col_offset) < self.home.earliest:  # type: ignore[attr-defined]
            raise Unreachable(f"it cannot be made before line {self.home.earliest[0]}")
        if self._guard is not None and not self.facts.inside(node, self._guard):
            raise Unreachable("it is made where the script is the main program")
        self.uses.append(node)

    def _use_by_calls(self, scope: Scope, seen: set[Scope]) -> None:
        """Notes where the home's own function calls one that reads its variable, itself or by others."""
        if scope is self.home.scope or scope in seen:
            return
        seen.add(scope)
        for call in self.facts.callers.get(scope.node, ()):  # type: ignore[call-overload]
            caller = self._function_scope(self.facts.scope(call))
            self._use(call, caller)
            self._use_by_calls(caller, seen)

    @cached_property
    def _guard(self) -> ast.If | None:
        """The `if __name__ == "__main__":` in which the accelerator is made."""
        around = [a for a in self.facts.ancestors(self.home.anchor) if isinstance(a, ast.If) and "__name__" in ast.unparse(a.test)]
        return around[0] if around else None

    def _sees_home(self, scope: Scope) -> bool:
        home = self.home
        if home.attribute:
            return False
        current: Scope | None = scope
        while current is not None:
            if current is home.scope:
                return True
            current = current.parent
        return False

    def _function_scope(self, scope: Scope) -> Scope:
        while isinstance(scope.node, ast.Lambda | ast.ClassDef):
            assert scope.parent is not None
            scope = scope.parent
        return scope

    def _inherits(self, cls: Scope, owner: Scope) -> bool:
        return owner.node in set(ancestry(self.facts, cls.node))  # type: ignore[arg-type]

    def _self_name(self, scope: Scope) -> str:
        args = scope.node.args.args  # type: ignore[attr-defined]
        if not args or any(ast.unparse(d) in {"staticmethod", "classmethod"} for d in scope.node.decorator_list):  # type: ignore[attr-defined]
            raise Unreachable(f"`{scope.node.name}` has no `self`")  # type: ignore[attr-defined]
        return args[0].arg

    # -- passing it on --------------------------------------------------------------------------
    def _passed(self, scope: Scope) -> str:
        node = scope.node
        if not isinstance(node, ast.FunctionDef):
            raise Unreachable("it is made elsewhere, and only functions can be given it")
        if node in self.failed:
            raise Unreachable(self.failed[node])
        outer = scope.parent
        if outer is not None and isinstance(outer.node, ast.FunctionDef):
            return self._passed_outer(outer)
        cls = scope.enclosing_class
        if cls is not None and isinstance(cls.node, ast.ClassDef):
            return self._held(scope, cls.node)
        self._add_parameter(node)
        return NAME

    def _passed_outer(self, outer: Scope) -> str:
        """A nested function reads the variable of the function around it."""
        return self._passed(outer)

    def _held(self, scope: Scope, cls: ast.ClassDef) -> str:
        """Methods read `self.accelerator`, which `__init__` takes as a parameter."""
        init = find_method(self.facts, cls, "__init__")
        if not isinstance(init, ast.FunctionDef):
            raise Unreachable(f"`{cls.name}` has no `__init__` that could take it")
        if not self.facts.callers.get(init):
            raise Unreachable(f"nothing is seen to make a `{cls.name}`")
        if scope.node is not init:
            name = self._self_name(scope)
            self._add_parameter(init)
            owner = self.facts.scopes[init].enclosing_class
            assert owner is not None and isinstance(owner.node, ast.ClassDef)
            self.holders.add(owner.node)
            return f"{name}.{NAME}"
        self._add_parameter(init)
        return NAME

    def _add_parameter(self, node: ast.FunctionDef) -> None:
        if node in self.parameters:
            return
        problem = why_not_all_known(self.facts, node)
        if problem:
            self.failed[node] = problem
            raise Unreachable(problem)
        self.parameters[node] = self._device_parameter(node)
        try:
            for call in givers(self.facts, node):
                self(call)
                for other in self.facts.callees.get(call, ()):  # `for metric in metrics: metric(output, target)`
                    if isinstance(other, ast.FunctionDef) and self.facts.scopes[other].enclosing_class is None:
                        self._add_parameter(other)
        except Unreachable as unreachable:
            del self.parameters[node]
            self.failed[node] = str(unreachable)
            raise

    def _device_parameter(self, node: ast.FunctionDef) -> ast.arg | None:
        """The parameter that only ever receives the device, by position or name."""
        facts = self.facts
        if any(handed_on(facts, call) for call in facts.callers.get(node, {})):
            return None
        for index, arg in enumerate(node.args.args):
            given = [self.argument(call, node, index) for call in facts.callers.get(node, {})]
            if given and all(g is not None and facts.has_role(g, Role.DEVICE) for g in given) and node not in self.holders:
                return arg
        return None

    def argument(self, call: ast.Call, function: ast.FunctionDef, index: int) -> ast.expr | None:
        """What `call` passes for the parameter at `index` of `function`."""
        scope = self.facts.scopes[function]
        bound = 1 if scope.enclosing_class is not None else 0
        position = index - bound
        name = function.args.args[index].arg
        for keyword in call.keywords:
            if keyword.arg == name:
                return keyword.value
        return call.args[position] if 0 <= position < len(call.args) else None

    # -- the edits that pass it on ----------------------------------------------------------------
    def edits(self) -> Iterator[Edit]:
        extended: set[ast.Call] = set()
        for function, device in list(self.parameters.items()):
            yield from self._parameter_edits(function, device, extended)
        for cls in self.holders:
            yield from self._holder_edits(cls)

    def import_edits(self) -> Iterator[Edit]:
        """The imports of the home's variable: to be asked for when nothing else needs the accelerator any more."""
        for scope in self.imports:
            yield AddImport(source=scope.source, rule=RULE, module=self.home.source.module, names=(NAME,))

    def _parameter_edits(self, function: ast.FunctionDef, device: ast.arg | None, extended: set[ast.Call]) -> Iterator[Edit]:
        facts, source = self.facts, self.facts.source(function)
        why = f"`{function.name}` uses the accelerator"
        calls = list(givers(facts, function))
        if device is None:
            last = any(call not in facts.callers[function] or fills_default(facts, function, call) for call in calls)
            yield AddParameter(source=source, rule=RULE, why=why, node=function, name=NAME, default="None" if last else None)
        else:
            yield RenameParameter(source=source, rule=RULE, why=why, parameter=device, name=NAME)
        for call in calls:
            text = self(call)
            given = self.argument(call, function, function.args.args.index(device)) if device is not None else None
            if given is None and call in extended:
                continue  # one of the functions that it may call has got the argument
            if given is None:
                extended.add(call)
                named = any(f.args.defaults or f.args.vararg for f in facts.callees.get(call, ()) if f in self.parameters)
                has_keywords = bool(call.keywords) or named or call not in facts.callers[function]
                yield AddArgument(source=self.facts.source(call), rule=RULE, why=why, node=call, value=text, keyword=NAME if has_keywords else None)
            elif any(k.value is given for k in call.keywords):
                yield RemoveArgument(source=self.facts.source(call), rule=RULE, why=why, node=call, argument=given)
                yield AddArgument(source=self.facts.source(call), rule=RULE, why=why, node=call, value=text, keyword=NAME)
            else:
                yield ReplaceExpression(source=self.facts.source(call), rule=RULE, why=why, node=given, template=text)

    def _holder_edits(self, cls: ast.ClassDef) -> Iterator[Edit]:
        init = find_method(self.facts, cls, "__init__")
        assert isinstance(init, ast.FunctionDef)
        name = init.args.args[0].arg
        template = f"{name}.{NAME} = {NAME}"
        first = _after_super(init)
        source = self.facts.source(cls)
        why = f"methods of `{cls.name}` use the accelerator"
        if first is not None:
            yield InsertAfter(source=source, rule=RULE, why=why, node=first, template=template)
        else:
            yield InsertBefore(source=source, rule=RULE, why=why, node=_first_statement(init), template=template)


def _after_super(init: ast.FunctionDef) -> ast.stmt | None:
    for statement in init.body:
        if isinstance(statement, ast.Expr) and ast.unparse(statement.value).startswith("super("):
            return statement
    return None


def _first_statement(init: ast.FunctionDef) -> ast.stmt:
    first = init.body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    return init.body[1] if is_docstring and len(init.body) > 1 else first
