"""An expression of one function, written for the function that called it.

A loss computed in `Model.forward` from `labels[..., 1:].contiguous()` has its denominator at the call `model(**batch)`:
`batch["labels"][..., 1:]`. Parameters become arguments, local variables their values, `self` the object.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

from accel_migrate.facts.facts import Facts
from accel_migrate.facts.scopes import Scope

SHAPE_ONLY = {"view", "reshape", "contiguous", "flatten", "to", "cuda", "cpu", "long", "detach", "clone"}
"""Methods that leave the elements, and so what is counted of them, as they are."""
COUNTING = {"sum", "float", "int", "ne", "eq", "gt", "ge", "lt", "le", "bool", "type_as", "clamp", "clamp_min"}
PLAIN = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript, ast.Slice, ast.Tuple, ast.Constant)
MAX_STEPS = 16


class NotThere(Exception):
    """The expression cannot be written there."""


def written_at(facts: Facts, node: ast.expr, at: ast.AST) -> ast.expr:
    """`node` as an expression that can stand at `at`, free of shape changes and moves.

    Raises:
        NotThere: it cannot be written there.
    """
    wanted, found = facts.scope(at), facts.scope(node)
    if found is wanted or all(wanted.owner(n.id) is found.owner(n.id) for n in ast.walk(node) if isinstance(n, ast.Name)):
        written = _Writer(facts, found, None, 0).write(node)
        if found is wanted:
            _check_unchanged(wanted, written, node, at)
        return written
    for call, scope in _calls_of(facts, found):
        if scope is wanted and call.lineno <= at.lineno:  # type: ignore[attr-defined]
            written = _Writer(facts, found, call, 0).write(node)
            _check_unchanged(wanted, written, call, at)
            return written
    raise NotThere


def _calls_of(facts: Facts, scope: Scope) -> Iterator[tuple[ast.Call, Scope]]:
    """Calls of the function of `scope`, the last one first."""
    calls = [call for call, functions in facts.callees.items() if scope.node in functions]
    return ((call, facts.scope(call)) for call in sorted(calls, key=lambda c: (c.lineno, c.col_offset), reverse=True))


def _check_unchanged(scope: Scope, written: ast.expr, call: ast.expr, at: ast.AST) -> None:
    """Nothing between `call` and `at` binds a variable of `written` anew."""
    names = {n.id for n in ast.walk(written) if isinstance(n, ast.Name)}
    for node in ast.walk(scope.node):
        stored = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in names
        if stored and call.end_lineno < node.lineno < at.lineno:  # type: ignore[attr-defined, operator]
            raise NotThere


class _Writer:
    """Writes expressions of `scope` for the function that holds `call` (None: for `scope` itself)."""

    def __init__(self, facts: Facts, scope: Scope, call: ast.Call | None, step: int) -> None:
        self.facts = facts
        self.scope = scope
        self.call = call
        self.step = step
        self.open: set[str] = set()
        """Variables whose values are being written: inside them they stand for the parameter of that name."""

    def write(self, node: ast.expr) -> ast.expr:
        self.step += 1
        if self.step > MAX_STEPS * 4:
            raise NotThere
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.Attribute):
            return ast.Attribute(self.write(node.value), node.attr, ast.Load())
        if isinstance(node, ast.Call):
            return self._called(node)
        if isinstance(node, PLAIN):
            return self._parts(node)
        raise NotThere

    def _parts(self, node: ast.expr) -> ast.expr:
        new = copy.copy(node)
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                setattr(new, name, self.write(value))
            elif isinstance(value, list):
                setattr(new, name, [self.write(v) if isinstance(v, ast.expr) else v for v in value])
        return new

    def _called(self, node: ast.Call) -> ast.expr:
        if not isinstance(node.func, ast.Attribute):
            raise NotThere
        if node.func.attr in SHAPE_ONLY:
            return self.write(node.func.value)
        if node.func.attr not in COUNTING:
            raise NotThere
        new = copy.copy(node)
        new.func = ast.Attribute(self.write(node.func.value), node.func.attr, ast.Load())
        new.args = [self.write(a) for a in node.args]
        new.keywords = [ast.keyword(k.arg, self.write(k.value)) for k in node.keywords]
        return new

    def _name(self, node: ast.Name) -> ast.expr:
        if self.call is None:
            return node
        owner = self.scope.owner(node.id)
        if owner is not self.scope:
            if owner is None or owner is self.facts.scope(self.call).owner(node.id):
                return node
            raise NotThere
        values = [n.value for n in ast.walk(self.scope.node) if isinstance(n, ast.Assign) and any(_binds(t, node.id) for t in n.targets)]
        if _is_changed(self.scope.node, node.id, len(values)) or len(values) > 1:
            raise NotThere
        if not values or node.id in self.open:
            return self._argument(node.id)
        self.open.add(node.id)
        try:
            return self.write(values[0])
        finally:
            self.open.discard(node.id)

    def _argument(self, name: str) -> ast.expr:
        """What the call passes for the parameter `name`."""
        assert self.call is not None
        function = self.scope.node
        if not isinstance(function, ast.FunctionDef):
            raise NotThere
        names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
        bound = 1 if self.scope.enclosing_class is not None else 0
        if name not in names:
            raise NotThere
        if bound and names.index(name) == 0:
            return self._receiver(function)
        for keyword in self.call.keywords:
            if keyword.arg == name:
                return _only_names(keyword.value)
        position = names.index(name) - bound
        if position < len(self.call.args) and not any(isinstance(a, ast.Starred) for a in self.call.args[: position + 1]):
            return _only_names(self.call.args[position])
        spread = [k.value for k in self.call.keywords if k.arg is None]
        if len(spread) == 1 and not self.call.args:
            return ast.Subscript(_only_names(spread[0]), ast.Constant(name), ast.Load())
        raise NotThere

    def _receiver(self, function: ast.FunctionDef) -> ast.expr:
        func = self.call.func  # type: ignore[union-attr]
        if isinstance(func, ast.Attribute) and func.attr == function.name:
            return _only_names(func.value)
        return _only_names(func)


def _binds(target: ast.expr, name: str) -> bool:
    return isinstance(target, ast.Name) and target.id == name


def _is_changed(function: ast.AST, name: str, assignments: int) -> bool:
    """Whether `name` is bound otherwise than by plain assignments, or its elements change (`labels[mask] = -100`)."""
    stored = 0
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id == name:
            return True
        in_place = isinstance(node, ast.Attribute) and node.attr.endswith("_") and not node.attr.startswith("_")
        if in_place and isinstance(node.value, ast.Name) and node.value.id == name:
            return True
        stored += isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
    return stored > assignments


def _only_names(node: ast.expr) -> ast.expr:
    """An argument, if it can be written a second time."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SHAPE_ONLY:
        node = node.func.value
    if any(isinstance(n, ast.Call) for n in ast.walk(node)):
        raise NotThere
    return node
