"""Small questions about model classes."""

from __future__ import annotations

import ast

from accel_migrate.facts.classes import role_of_class
from accel_migrate.facts.facts import Facts
from accel_migrate.facts.values import Role


def enclosing_model(facts: Facts, node: ast.AST) -> ast.ClassDef | None:
    """The model class in whose method `node` stands."""
    for ancestor in facts.ancestors(node):
        if isinstance(ancestor, ast.ClassDef):
            return ancestor if role_of_class(facts, ancestor) in {Role.MODEL, Role.CRITERION} else None
    return None
