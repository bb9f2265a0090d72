"""Whether the comment above a statement speaks of it alone, and so goes with it."""

from __future__ import annotations

import ast

from accel_migrate.edits import DeleteStatement
from accel_migrate.facts.facts import Facts


def delete(facts: Facts, statement: ast.stmt, rule: str, why: str) -> DeleteStatement:
    """The deletion of `statement`, with the comment right above it unless that heads what follows too."""
    source = facts.source(statement)
    return DeleteStatement(source=source, rule=rule, why=why, node=statement, with_comment=_stands_alone(facts, statement))


def _stands_alone(facts: Facts, statement: ast.stmt) -> bool:
    block = facts.block(statement)
    place = next(i for i, s in enumerate(block) if s is statement)
    if place + 1 == len(block):
        return True
    lines = facts.source(statement).text.split("\n")
    between = lines[(statement.end_lineno or 0) : block[place + 1].lineno - 1]
    return bool(between)
