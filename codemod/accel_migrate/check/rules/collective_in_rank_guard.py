"""A call in which all processes meet, where only some of them come."""

from __future__ import annotations

import ast
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
_WAITS = "those that come wait for the others until they are stopped"
_WHAT = {
    "accelerator.save_state()": "the random states of the others are not saved, and under FSDP and DeepSpeed those that come wait for ever",
    "accelerator.get_state_dict()": "under FSDP and DeepSpeed ZeRO-3 those that come wait for ever",
    "accelerator.save_model()": "under FSDP and DeepSpeed ZeRO-3 those that come wait for ever",
}


def check(program: Program) -> Iterator[Alarm]:
    for found in guarded(program, program.reach.collectives):
        name = program.reach.collectives[found.target]  # type: ignore[index]
        asks = _asks_how(program, found.guard.node)
        if asks and name in _SHARDED:
            continue
        severity = Severity.WARNING if asks and name in _STATE else None
        yield Alarm(
            found.place, _message(program, found, name, asks), _advice(found, name), _fix(program, found), severity
        )


def _asks_how(program: Program, test: ast.AST) -> bool:
    """Whether the test lets all processes through where the parameters are sharded."""
    return any(isinstance(n, ast.Attribute) and n.attr in {"distributed_type", "is_fsdp2"} for n in program.flow.origins(test))


def _message(program: Program, found: Guarded, name: str, asks: bool) -> str:
    what = "the random states of the others are not saved" if asks else _WHAT.get(name, _WAITS)
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
