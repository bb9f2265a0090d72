"""Names that hold a loader's batch size: a constant of the whole batch, of which each process holds a part."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.facts.facts import Facts
from accel_migrate.facts.values import Role

ROUNDS = 4
"""Assignments and calls in a row through which a size is followed."""
Place = tuple[object, str]


class WholeSizes:
    """Where the batch sizes of the program's loaders are held; `in` asks for an expression."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.places = {place for size in self._given() if (place := self._place(size)) is not None}
        for _ in range(ROUNDS if self.places else 0):
            before = len(self.places)
            self._follow_assignments()
            self._follow_calls()
            if len(self.places) == before:
                break

    def __contains__(self, node: object) -> bool:
        return isinstance(node, ast.expr) and bool(self.places) and self._place(node) in self.places

    def _given(self) -> Iterator[ast.expr]:
        sites = {loader.site for loop in self.facts.loops.values() for loader in loop.loaders if self.facts.role(loader) is Role.LOADER}  # type: ignore[attr-defined]
        for site in (s for s in sites if isinstance(s, ast.Call)):
            yield from (k.value for k in site.keywords if k.arg == "batch_size")
            yield from site.args[1:2]

    def _place(self, node: ast.expr) -> Place | None:
        """What stands for a variable, or for an attribute of a variable (of `self`: of the class)."""
        if isinstance(node, ast.Name):
            return self.facts.scope(node).owner(node.id), node.id
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            cls = self.facts.scope(node).enclosing_class if node.value.id == "self" else None
            return (None if cls is None else cls.node), f"{node.value.id if cls is not None else ''}.{node.attr}"
        return None

    def _follow_assignments(self) -> None:
        for _, node in self.facts.nodes(ast.Assign):
            if node.value in self:  # type: ignore[attr-defined]
                self.places |= {p for t in node.targets if (p := self._place(t)) is not None}  # type: ignore[attr-defined]

    def _follow_calls(self) -> None:
        for call, functions in self.facts.callees.items():
            for function in (f for f in functions if isinstance(f, ast.FunctionDef)):
                names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
                if names[:1] == ["self"]:
                    names = names[1:]
                given = [*zip(names, call.args, strict=False), *((k.arg, k.value) for k in call.keywords)]
                self.places |= {(self.facts.scopes[function], str(name)) for name, value in given if value in self}
