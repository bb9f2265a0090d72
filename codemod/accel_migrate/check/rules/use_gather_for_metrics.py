"""`gather` in an evaluation: it keeps the samples that were repeated to make the last batch even."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm, Fix
from accel_migrate.check.program import Program
from accel_migrate.edits import ReplaceExpression, Severity
from accel_migrate.facts.facts import Loop
from accel_migrate.facts.values import Made, Prepared

ID = "use-gather-for-metrics"
TITLE = "gather() counts repeated samples; gather_for_metrics() drops them"
SEVERITY = Severity.WARNING

_EVEN = {"even_batches"}


def check(program: Program) -> Iterator[Alarm]:
    for call in program.calls_of("gather"):
        loop = program.loop_over(call)
        if (
            loop is None
            or loop.trains
            or not any(isinstance(v, Prepared) for v in loop.loaders)
        ):
            continue
        if (
            not call.args
            or not any(program.facts.is_local(n) for n in ast.walk(call.args[0]))
            or _drops_last(loop)
            or _cuts_by_hand(program, loop)
        ):
            continue
        edit = ReplaceExpression(
            source=program.source(call),
            rule=ID,
            node=call.func,
            template="{own}.gather_for_metrics",
            parts={"own": call.func.value},
        )  # type: ignore[attr-defined]
        yield Alarm(
            call,
            "where the samples do not divide evenly some are repeated in the last batch, and counted twice: more rows than there are samples",
            "accelerator.gather_for_metrics(...), which drops the repeated ones",
            Fix((edit,)),
        )


def _drops_last(loop: Loop) -> bool:
    sites = [v.site for v in loop.loaders if isinstance(v, Made) and isinstance(v.site, ast.Call)]
    return any(
        k.arg == "drop_last" and isinstance(k.value, ast.Constant) and k.value.value is True
        for site in sites
        for k in site.keywords
    )


def _cuts_by_hand(program: Program, loop: Loop) -> bool:
    """Whether the script drops the repeated samples itself: `predictions[: len(dataset) - seen]`."""
    function = program.facts.function(loop.node)
    return any(
        isinstance(n, ast.Subscript)
        and isinstance(n.slice, ast.Slice)
        and n.slice.upper is not None
        and "len(" in ast.unparse(n.slice.upper)
        for n in ast.walk(function)
    )
