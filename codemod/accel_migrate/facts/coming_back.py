"""Rows that leave the tensors and come back to a model: `points = torch.tensor(augmented(points.numpy()))`.

They are an input, no figure: each process goes on with the arrays of its own rows.
"""

from __future__ import annotations

import ast

from accel_migrate.facts import catalog
from accel_migrate.facts.facts import Facts
from accel_migrate.facts.meetings import Meetings
from accel_migrate.facts.operations import spreads
from accel_migrate.facts.values import Role, Spread


def coming_back(facts: Facts) -> set[ast.expr]:
    """What is made an array and, by way of variables, containers and functions, becomes an argument of a model."""
    arrays = [c.value for c in facts.conversions.values() if c.how == "array" and spreads(c.values) == {Spread.SHARD} and _is_method(facts, c.value)]
    meetings = Meetings(facts) if arrays else None
    return {rows for rows in arrays if meetings is not None and any(_is_input(facts, node) for node in meetings.followed(rows))}


def _is_method(facts: Facts, rows: ast.expr) -> bool:
    """Whether the array is made by `rows.numpy()`, and not by a function of another library."""
    func = facts.parents.get(rows)
    return isinstance(func, ast.Attribute) and func.value is rows and func.attr in catalog.HOST_CONVERSIONS


def _is_input(facts: Facts, node: ast.expr) -> bool:
    call = facts.parents.get(node)
    return isinstance(call, ast.Call) and node in call.args and facts.has_role(call.func, Role.MODEL)
