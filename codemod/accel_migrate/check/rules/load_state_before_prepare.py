"""`load_state` restores what was prepared before; what is prepared after it keeps its fresh weights."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity
from accel_migrate.facts.values import Role

ID = "load-state-before-prepare"
TITLE = "load_state() runs before the objects are prepared: it restores nothing"
SEVERITY = Severity.ERROR


def check(program: Program) -> Iterator[Alarm]:
    for call in program.calls_of("load_state"):
        function = program.facts.function(call)
        later = [
            p for p in program.preparations
            if program.facts.function(p.call) is function and p.call.lineno > call.lineno and program.facts.has_role(p.argument, Role.MODEL, Role.OPTIMIZER)
        ]  # fmt: skip
        if later and _same_way(program, call, later[0].call) and not _prepared_since(program, call):
            yield Alarm(
                call,
                f"what is prepared in line {later[0].call.lineno} is unknown to it: the model starts from scratch, and nothing is said",
                "prepare model, optimizer, scheduler and loaders first, then load_state",
            )


def _same_way(program: Program, call: ast.AST, later: ast.AST) -> bool:
    """Whether the one runs after the other, and both are not in different branches of one `if`."""
    above = [a for a in program.facts.ancestors(call) if isinstance(a, ast.If)]
    return not any(program.facts.inside(later, branch) for branch in above)


def _prepared_since(program: Program, call: ast.Call) -> bool:
    """Whether objects were prepared above that are still in use: a `free_memory()` forgets them."""
    function = program.facts.function(call)
    forgotten = [
        c.lineno
        for c in program.calls_of("free_memory", "clear")
        if program.facts.function(c) is function and c.lineno < call.lineno
    ]
    last = max(forgotten, default=0)
    return any(
        last < p.call.lineno < call.lineno
        and program.facts.function(p.call) is function
        and program.facts.has_role(p.argument, Role.MODEL)
        for p in program.preparations
    )
