"""What `prepare` returned is prepared again."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity
from accel_migrate.facts.values import Prepared, Role
from accel_migrate.quoting import quote

ID = "prepared-twice"
TITLE = "An object is prepared twice"
SEVERITY = Severity.ERROR


def check(program: Program) -> Iterator[Alarm]:
    for p in program.preparations:
        earlier = [v.call for v in program.facts.of(p.argument) if isinstance(v, Prepared) and v.call is not p.call]
        known = any(
            program.facts.role(v) in {Role.MODEL, Role.OPTIMIZER, Role.LOADER, Role.SCHEDULER}
            for v in program.facts.of(p.argument)
        )
        same = [
            c
            for c in earlier
            if program.facts.function(c) is program.facts.function(p.call)
            and c.lineno < p.call.lineno
            and not _apart(program, c, p.call)
        ]
        if (
            same
            and known
            and not program.facts.has_role(p.argument, Role.ACCELERATOR)
            and isinstance(p.argument, ast.Name | ast.Attribute)
        ):
            yield Alarm(
                p.argument,
                f"`{quote(p.argument)}` was prepared in line {same[-1].lineno} already: a loader is cut twice (each process sees 1/N of 1/N), an optimizer or a model is wrapped in itself",
                "prepare each object once",
            )


def _apart(program: Program, first: ast.Call, second: ast.Call) -> bool:
    """Whether the two stand in different branches, or the accelerator forgot the first in between."""
    if any(first.lineno < c.lineno < second.lineno for c in program.calls_of("free_memory", "clear")):
        return True
    branches = _branches(program, second)
    return any(branches.get(test, taken) is not taken for test, taken in _branches(program, first).items())


def _branches(program: Program, node: ast.AST) -> dict[str, bool]:
    """The conditions around `node`, with what they are there."""
    found: dict[str, bool] = {}
    child = node
    for ancestor in program.facts.ancestors(node):
        if isinstance(ancestor, ast.If) and child is not ancestor.test:
            found[ast.unparse(ancestor.test)] = any(child is statement for statement in ancestor.body)
        child = ancestor
    return found
