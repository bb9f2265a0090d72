"""Which code runs before the objects are prepared, and so still meets the plain ones."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from accel_migrate.edits import InsertAfter
from accel_migrate.facts.facts import Facts
from accel_migrate.plan import Plan

PREPARE = "prepare"
"""The rule whose insertions prepare objects."""


@dataclass(eq=False)
class PreparedOrder:
    """Built when the rules have said where they prepare."""

    facts: Facts
    plan: Plan
    ends: dict[ast.AST, tuple[int, int]] = field(init=False, default_factory=dict)
    """Function or module -> the end of the statement after which it first prepares something."""

    def __post_init__(self) -> None:
        for edit in self.plan.edits:
            if isinstance(edit, InsertAfter) and edit.rule == PREPARE:
                function = self.facts.function(edit.node)
                self.ends[function] = min(self.ends.get(function, end_of(edit.node)), end_of(edit.node))

    def is_before(self, node: ast.AST) -> bool:
        """Whether `node` surely runs before anything is prepared: above the place, or called from there only."""
        return self._is_before(node, set())

    def _is_before(self, node: ast.AST, seen: set[ast.AST]) -> bool:
        function = self.facts.function(node)
        if function in self.ends:
            return end_of(node) <= self.ends[function] and not self._repeats(node, function)
        if function in seen or not isinstance(function, ast.FunctionDef) or function in self.facts.called_back:
            return False
        callers = self.facts.callers.get(function, {})
        return bool(callers) and all(self._is_before(call, seen | {function}) for call in callers)

    def _repeats(self, node: ast.AST, function: ast.AST) -> bool:
        """Whether a loop around `node` also holds the place where objects are prepared."""
        for ancestor in self.facts.ancestors(node):
            if ancestor is function:
                return False
            if isinstance(ancestor, ast.For | ast.While) and end_of(ancestor) >= self.ends[function]:
                return True
        return False


def end_of(node: ast.AST) -> tuple[int, int]:
    return node.end_lineno or 0, node.end_col_offset or 0  # type: ignore[attr-defined]
