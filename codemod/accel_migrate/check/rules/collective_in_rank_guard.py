"""A call in which all processes meet, where only some of them come."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm, Fix
from accel_migrate.check.guarded import Guarded, guarded
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity, UnwrapStatement
from accel_migrate.quoting import quote

ID = "collective-in-rank-guard"
TITLE = "A call in which all processes meet runs on some of them only"
SEVERITY = Severity.ERROR

_STATE = {"accelerator.save_state()", "accelerator.load_state()"}
_SHARDED = {"accelerator.get_state_dict()", "accelerator.save_model()"}
_SHARDING = re.compile(r"(^|_)(fsdp|deepspeed)", re.IGNORECASE)
"""Names of variables that say that the parameters are sharded."""
_WAITS = "those that come wait for the others until they are stopped"
_WHAT = {
    "accelerator.save_state()": "the random states of the others are not saved, and under FSDP and DeepSpeed those that come wait for ever",
    "accelerator.get_state_dict()": "under FSDP and DeepSpeed ZeRO-3 those that come wait for ever",
    "accelerator.save_model()": "under FSDP and DeepSpeed ZeRO-3 those that come wait for ever",
}
_IN_TURN = {
    "accelerator.wait_for_everyone()": "it meets the others where they wait for their turn, so that they begin before the first process is through",
    **dict.fromkeys(_STATE | _SHARDED, "under FSDP and DeepSpeed the first process waits in it for the others, which wait for their turn"),
}
"""What happens in `with accelerator.main_process_first():`, where each process comes, one after the other."""


def check(program: Program) -> Iterator[Alarm]:
    for found in guarded(program, program.reach.collectives):
        name = program.reach.collectives[found.target]  # type: ignore[index]
        asks = _asks_how(program, found.guard.node)
        if asks and name in _SHARDED:
            continue
        if isinstance(found.guard.node, ast.Call) and name in _IN_TURN:
            yield Alarm(found.place, _message(program, found, name, False, _IN_TURN[name]), _advice(found, name), severity=Severity.WARNING)
            continue
        severity = Severity.WARNING if asks and name in _STATE else None
        yield Alarm(
            found.place, _message(program, found, name, asks), _advice(found, name), _fix(program, found), severity
        )


def _asks_how(program: Program, test: ast.AST) -> bool:
    """Whether the test lets all processes through where the parameters are sharded."""
    names = (n.attr if isinstance(n, ast.Attribute) else n.id if isinstance(n, ast.Name) else "" for n in program.flow.origins(test))
    return any(name in {"distributed_type", "is_fsdp2"} or _SHARDING.search(name) for name in names)


def _message(program: Program, found: Guarded, name: str, asks: bool, what: str = "") -> str:
    what = what or ("the random states of the others are not saved" if asks else _WHAT.get(name, _WAITS))
    if found.is_direct:
        return f"`{name}` is reached by some processes only (`{found.guard.text}`): {what}"
    return f"`{quote(found.place)}` is reached by some processes only (`{found.guard.text}`), and comes to `{name}` at {program.where(found.target)}: {what}"


def _advice(found: Guarded, name: str) -> str:
    if name in _STATE:
        return f"call `{name}` on every process, outside of the condition: it knows by itself who writes what"
    if name in _SHARDED:
        return f"call `{name}` on every process above the condition, and keep only the writing of its result inside"
    return (
        "call it on every process, outside of the condition; inside keep what one process does alone (print, save, log)"
    )


def _fix(program: Program, found: Guarded) -> Fix | None:
    """`if accelerator.is_main_process: accelerator.save_state(d)` loses its condition where nothing else stands under it."""
    statement = program.facts.statement(found.place)
    parent = program.facts.parents.get(statement)
    if (
        not found.is_direct
        or not isinstance(parent, ast.If)
        or parent.test is not found.guard.node
        or len(parent.body) > 1
        or parent.orelse
    ):
        return None
    alone = (
        isinstance(parent.test, ast.Attribute) and isinstance(statement, ast.Expr) and statement.value is found.place
    )
    in_else = isinstance(program.facts.parents[parent], ast.If) and parent in program.facts.parents[parent].orelse  # type: ignore[attr-defined]
    return (
        Fix((UnwrapStatement(source=program.source(parent), rule=ID, node=parent),)) if alone and not in_else else None
    )
