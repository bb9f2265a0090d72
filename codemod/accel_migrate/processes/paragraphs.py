"""Whether the comment above a statement speaks of it alone, and so goes with it."""

from __future__ import annotations

import ast
import re
from collections.abc import Container

from accel_migrate.edits import DeleteStatement
from accel_migrate.facts.facts import Facts


def delete(
    facts: Facts,
    statement: ast.stmt,
    rule: str,
    why: str,
    gone: Container[ast.stmt] = (),
    about: re.Pattern[str] | None = None,
) -> DeleteStatement:
    """The deletion of `statement`, with the comment right above it unless that heads what follows too.

    `gone` are statements that are deleted as well; a comment that does not match `about` stays in any case.
    """
    source = facts.source(statement)
    alone = _stands_alone(facts, statement, gone) and (
        about is None or about.search(_comment_above(facts, statement)) is not None
    )
    return DeleteStatement(source=source, rule=rule, why=why, node=statement, with_comment=alone)


def _stands_alone(facts: Facts, statement: ast.stmt, gone: Container[ast.stmt]) -> bool:
    block = facts.block(statement)
    place = next(i for i, s in enumerate(block) if s is statement)
    while (
        place + 1 < len(block)
        and block[place + 1] in gone
        and block[place + 1].lineno == (block[place].end_lineno or 0) + 1
    ):
        place += 1
    if place + 1 == len(block):
        return True
    lines = facts.source(statement).text.split("\n")
    between = lines[(block[place].end_lineno or 0) : block[place + 1].lineno - 1]
    return bool(between)


def _comment_above(facts: Facts, statement: ast.stmt) -> str:
    """The comment lines right above `statement`."""
    lines = facts.source(statement).text.split("\n")
    first = statement.lineno - 1
    start = first
    while start > 0 and lines[start - 1].lstrip().startswith("#"):
        start -= 1
    return "\n".join(lines[start:first])
