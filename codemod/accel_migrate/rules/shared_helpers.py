"""A helper that makes its figure global must not get what is global already."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding, Severity
from accel_migrate.facts.values import Box, Instance, Literal, Local, Spread

ID = "shared-helper"
TITLE = "Report helpers that get slices of batches and whole results alike"
WHY = "reduced over the processes, whole results count several times"
NUMBERS = {Spread.COUNT, Spread.RATE}


def apply(context: Context) -> Iterator[Edit | Finding]:
    if context.distributed:
        return
    facts, seen = context.facts, set[ast.AST]()
    running = {f.scope.node for f in (*facts.loops.values(), *facts.forwards.values(), *facts.backwards.values())}
    for conversion in facts.conversions.values():
        function = facts.function(conversion.value)
        reduces = any(isinstance(v, Local) and v.spread not in NUMBERS for v in conversion.values)
        if not reduces or function in seen or function in running or not isinstance(function, ast.FunctionDef):
            continue
        seen.add(function)
        calls = [c for c in facts.callers.get(function, {}) if _is_reached(context, c)]
        local = next((c for c in calls if _gets(context, c, (Local,))), None)
        whole = next((c for c in calls if c.args and not _gets(context, c, (Local, Box, Instance, Literal))), None)
        if local is not None and whole is not None:
            yield Finding(
                source=context.source(conversion.value), node=conversion.value, rule=ID, severity=Severity.WARNING,
                message=f"`{function.name}` gets a slice of the batch (line {local.lineno}) and whole results (line {whole.lineno}): reduced, the whole ones count several times",
                advice="let it return the local figure, and make it global at the call that hands in a slice",
            )  # fmt: skip


def _is_reached(context: Context, call: ast.Call) -> bool:
    function = context.facts.function(call)
    return isinstance(function, ast.Module) or function in context.facts.visited


def _gets(context: Context, call: ast.Call, kinds: tuple[type, ...]) -> bool:
    given = [*call.args, *(k.value for k in call.keywords)]
    return any(isinstance(v, kinds) for argument in given for v in context.facts.of(argument))
