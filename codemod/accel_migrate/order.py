"""Which code runs before the objects are prepared (and so still meets the plain ones), or before the accelerator is made."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from accel_migrate.edits import InsertAfter
from accel_migrate.facts.facts import Facts
from accel_migrate.plan import Plan

PREPARE = "prepare"
"""The rule whose insertions prepare objects."""


@dataclass(eq=False)
class Before:
    """What runs before an event."""

    facts: Facts
    ends: dict[ast.AST, tuple[int, int]]
    """Function or module -> the end of the statement or call with which the event first happens in it."""

    @classmethod
    def preparation(cls, facts: Facts, plan: Plan) -> Before:
        """Built when the rules have said where they prepare."""
        ends: dict[ast.AST, tuple[int, int]] = {}
        for edit in plan.edits:
            if isinstance(edit, InsertAfter) and edit.rule == PREPARE:
                _note(ends, facts, edit.node)
        return cls(facts, ends)

    @classmethod
    def statement(cls, facts: Facts, statement: ast.stmt) -> Before:
        """The event is `statement`, also by way of the functions that call its function."""
        ends: dict[ast.AST, tuple[int, int]] = {}
        pending: list[ast.AST] = [statement]
        seen: set[ast.AST] = set()
        while pending:
            node = pending.pop()
            function = _note(ends, facts, node)
            if function not in seen:
                seen.add(function)
                pending.extend(facts.callers.get(function, {}))  # type: ignore[call-overload]
        return cls(facts, ends)

    def is_before(self, node: ast.AST) -> bool:
        """Whether `node` surely runs before the event: above it, or called from there only."""
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
        """Whether a loop around `node` also holds the event."""
        for ancestor in self.facts.ancestors(node):
            if ancestor is function:
                return False
            if isinstance(ancestor, ast.For | ast.While) and end_of(ancestor) >= self.ends[function]:
                return True
        return False


def _note(ends: dict[ast.AST, tuple[int, int]], facts: Facts, node: ast.AST) -> ast.AST:
    function = facts.function(node)
    ends[function] = min(ends.get(function, end_of(node)), end_of(node))
    return function


def end_of(node: ast.AST) -> tuple[int, int]:
    return node.end_lineno or 0, node.end_col_offset or 0  # type: ignore[attr-defined]
