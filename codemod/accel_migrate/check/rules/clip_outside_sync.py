"""Clipping in every micro-batch of an accumulated step."""

from __future__ import annotations

from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm, Fix
from accel_migrate.check.program import Program
from accel_migrate.check.rules.raw_backward import _name
from accel_migrate.edits import Severity, WrapStatements
from accel_migrate.facts.catalog import CLIPPING

ID = "clip-outside-sync"
TITLE = "Gradients are clipped in every micro-batch inside accumulate()"
SEVERITY = Severity.WARNING


def check(program: Program) -> Iterator[Alarm]:
    torch = {call for call, name in program.facts.external.items() if name in CLIPPING}
    for call in {*torch, *program.calls_of("clip_grad_norm_", "clip_grad_value_")}:
        if program.accumulation(call) is None or program.is_under(call, "sync_gradients"):
            continue
        statement = program.facts.statement(call)
        own = _name(program, call)
        wrap = WrapStatements(
            source=program.source(call), rule=ID, nodes=(statement,), header=f"if {own}.sync_gradients:"
        )
        yield Alarm(
            call,
            "the sum of the gradients so far is cut in each micro-batch, before the last ones are added: the step is smaller than asked for",
            "put it under `if accelerator.sync_gradients:`",
            Fix((wrap,))
            if own is not None and getattr(statement, "value", None) is call and type(statement).__name__ == "Expr"
            else None,
        )
