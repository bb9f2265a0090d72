"""torch's clipping in a script with an accelerator."""

from __future__ import annotations

from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm, Fix
from accel_migrate.check.program import Program
from accel_migrate.check.rules.raw_backward import _name
from accel_migrate.edits import ReplaceExpression, Severity
from accel_migrate.facts.catalog import CLIPPING

ID = "torch-clip"
TITLE = "torch's clipping instead of the accelerator's"
SEVERITY = Severity.WARNING


def check(program: Program) -> Iterator[Alarm]:
    if not program.preparations:
        return
    for call, name in program.facts.external.items():
        steps = [c for c in program.calls_of("backward") if program.facts.function(c) is program.facts.function(call)]
        if name in CLIPPING and call.args and (steps or program.training_loop(call) is not None):
            method = CLIPPING[name]
            own = _name(program, call)
            edit = ReplaceExpression(source=program.source(call), rule=ID, node=call.func, template=f"{own}.{method}")
            yield Alarm(
                call,
                "it clips gradients that are still scaled in fp16, and under FSDP and DeepSpeed each process's part of the norm by itself",
                f"accelerator.{method}(...), which unscales first and takes the norm over all processes",
                Fix((edit,)) if own is not None else None,
            )
