"""Variables that hold what is prepared, and the objects which one of them holds in turn."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TypeAlias

from accel_migrate.facts.facts import Binding, Facts
from accel_migrate.facts.scopes import Scope
from accel_migrate.facts.values import Role

RUNNABLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.While, ast.With, ast.If, ast.Try)

Object: TypeAlias = tuple[ast.AST, Role]
"""Where an object is made, and its role."""


@dataclass(eq=False)
class Variable:
    """A name or attribute that holds something to prepare, and the statements that bind it."""

    text: str
    role: Role
    made: set[Object]
    scope: Scope
    bindings: list[Binding] = field(default_factory=list)
    anew: bool = False
    """Whether a condition in a loop makes it anew, so that it is prepared there."""

    @property
    def order(self) -> int:
        return self.bindings[0].order


def lives(facts: Facts, block: list[ast.stmt], variable: Variable) -> list[Variable]:
    """`variable`, once for each object: one that is made anew in `block` after a training is another object; one that is wrapped then is the same."""
    trainings = [i for i, s in enumerate(block) if isinstance(s, RUNNABLE) and _trains(facts, s)]
    turns: dict[int, list[Binding]] = defaultdict(list)
    turn = 0
    for binding in variable.bindings:
        place = next((i for i, s in enumerate(block) if s is binding.statement), None)
        later = turn if place is None else sum(training < place for training in trainings)
        if turns and later > turn and not _makes_anew(binding.statement, variable.text):
            continue
        turn = max(turn, later) if turns else later
        turns[turn].append(binding)
    return [Variable(variable.text, variable.role, variable.made, variable.scope, bindings) for _, bindings in sorted(turns.items())]


def _trains(facts: Facts, statement: ast.stmt) -> bool:
    """Whether a backward pass runs in `statement`, calls included."""
    seen: set[ast.AST] = set()
    pending: list[ast.AST] = [statement]
    while pending:
        for node in ast.walk(pending.pop()):
            if node in facts.backwards:
                return True
            new = facts.callees.get(node, set()) - seen if isinstance(node, ast.Call) else set()
            seen |= new
            pending.extend(new)
    return False


def _makes_anew(statement: ast.stmt, text: str) -> bool:
    """Whether `statement` binds the result of a call that does not get the object itself: no `model = wrapped(model)`."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
        return False
    return text not in {ast.unparse(n) for n in ast.walk(statement.value) if isinstance(n, ast.Name | ast.Attribute)}
