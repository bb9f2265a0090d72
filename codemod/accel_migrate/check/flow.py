"""Where the value of an expression comes from and goes to within its function: by name, and in no order."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cached_property

from accel_migrate.facts.facts import Facts

Key = tuple[object, str]


FILLING = {"append", "extend", "insert", "add"}
"""Methods that put their last argument into a container."""

REDUCING = {f"torch.distributed.{name}" for name in ("all_reduce", "broadcast", "reduce")}
"""Functions that make their first argument, in place, the same on all processes."""


class Flow:
    """Follows variables and `self.` attributes through assignments."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    @cached_property
    def assigned(self) -> dict[Key, list[ast.expr]]:
        """What is assigned to each variable, or put into the list that it holds."""
        found: dict[Key, list[ast.expr]] = defaultdict(list)
        for _, node in self.facts.nodes(ast.Assign, ast.AugAssign, ast.AnnAssign, ast.NamedExpr):
            value = node.value  # type: ignore[attr-defined]
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:  # type: ignore[attr-defined]
                for element, part in _pairs(target, value):
                    key = self.key(element)
                    if key is not None and part is not None:
                        found[key].append(part)
        for _, call in self.facts.nodes(ast.Call):
            if isinstance(call.func, ast.Attribute) and call.func.attr in FILLING and call.args:  # type: ignore[attr-defined]
                key = self.key(call.func.value)  # type: ignore[attr-defined]
                if key is not None:
                    found[key].append(call.args[-1])  # type: ignore[attr-defined]
            elif call.args and self.facts.external.get(call, "") in REDUCING:  # type: ignore[attr-defined, arg-type]
                key = self.key(call.args[0])  # type: ignore[attr-defined]
                if key is not None:
                    found[key].append(call)  # type: ignore[arg-type]
        return found

    def key(self, node: ast.AST) -> Key | None:
        """The variable or attribute which `node` names."""
        if isinstance(node, ast.Starred):
            node = node.value
        if isinstance(node, ast.Subscript):
            return self.key(node.value)
        if isinstance(node, ast.Name):
            scope = self.facts.scope(node)
            return scope.owner(node.id) or scope, node.id
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return ("attribute of", node.value.id), node.attr
        return None

    def origins(self, *nodes: ast.AST, stop: Callable[[ast.AST], bool] | None = None) -> Iterator[ast.AST]:
        """Every expression of which the values of `nodes` are made, themselves included.

        `stop`: what is not looked into; nor is a variable to which such an expression is assigned anywhere.
        """
        pending, seen = list(nodes), set[Key]()
        while pending:
            node = pending.pop()
            if stop is not None and stop(node):
                continue
            yield node
            pending.extend(ast.iter_child_nodes(node))
            key = self.key(node) if isinstance(node, ast.Name | ast.Attribute) else None
            if key is None or key in seen:
                continue
            seen.add(key)
            values = self.assigned.get(key, [])
            if stop is None or not any(stop(value) or any(map(stop, ast.walk(value))) for value in values):
                pending.extend(values)

    def reaches(self, value: ast.AST, *uses: ast.AST) -> bool:
        """Whether the value of `value` is part of what one of `uses` is made of."""
        return any(origin is value for origin in self.origins(*uses))


def _pairs(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """What each part of `target` gets: `a, b = prepare(x, y)` gives `a` what `x` is."""
    if not isinstance(target, ast.Tuple | ast.List):
        yield target, value
        return
    parts: list[ast.expr] = []
    if isinstance(value, ast.Tuple | ast.List):
        parts = value.elts
    elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "prepare":
        parts = value.args
    if len(parts) == len(target.elts) and not any(isinstance(p, ast.Starred) for p in (*parts, *target.elts)):
        yield from zip(target.elts, parts, strict=True)
    else:
        yield from ((element, value) for element in target.elts)
