"""Variables that hold what is prepared, and the objects which one of them holds in turn."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass, field

from accel_migrate.facts.facts import Binding, Facts
from accel_migrate.facts.scopes import Scope
from accel_migrate.facts.values import Role
from accel_migrate.side_effects import runs_models

RUNNABLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.While, ast.With, ast.If, ast.Try)


@dataclass(eq=False)
class Variable:
    """A name or attribute that holds something to prepare, and the statements that bind it."""

    text: str
    role: Role
    sites: set[ast.AST]
    scope: Scope
    bindings: list[Binding] = field(default_factory=list)

    @property
    def order(self) -> int:
        return self.bindings[0].order


def lives(facts: Facts, block: list[ast.stmt], variable: Variable) -> list[Variable]:
    """`variable`, once for each object: one that is made anew in `block` after models ran is another object."""
    runs = [i for i, s in enumerate(block) if isinstance(s, RUNNABLE) and runs_models(facts, s)]
    turns: dict[int, list[Binding]] = defaultdict(list)
    turn = 0
    for binding in variable.bindings:
        place = next((i for i, s in enumerate(block) if s is binding.statement), None)
        if place is not None and turns and _makes_anew(binding.statement, variable.text):
            turn = sum(run < place for run in runs)
        turns[turn].append(binding)
    return [Variable(variable.text, variable.role, variable.sites, variable.scope, bindings) for _, bindings in sorted(turns.items())]


def _makes_anew(statement: ast.stmt, text: str) -> bool:
    """Whether `statement` binds the result of a call that does not get the object itself: no `model = wrapped(model)`."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
        return False
    return text not in {ast.unparse(n) for n in ast.walk(statement.value) if isinstance(n, ast.Name | ast.Attribute)}
