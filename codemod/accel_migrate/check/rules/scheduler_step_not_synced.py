"""A scheduler that was not prepared ticks in every micro-batch of an accumulated step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm, Fix
from accel_migrate.check.program import Program
from accel_migrate.check.rules.raw_backward import _name
from accel_migrate.edits import Severity, WrapStatements
from accel_migrate.facts.values import Role
from accel_migrate.quoting import quote

ID = "scheduler-step-not-synced"
TITLE = "A scheduler ticks in every micro-batch inside accumulate()"
SEVERITY = Severity.ERROR


def check(program: Program) -> Iterator[Alarm]:
    for call, (_, method) in program.facts.methods.items():
        if method != "step" or not isinstance(call.func, ast.Attribute) or program.accumulation(call) is None:
            continue
        scheduler = call.func.value
        if (
            not program.facts.has_role(scheduler, Role.SCHEDULER)
            or program.is_prepared(scheduler)
            or program.is_under(call, "sync_gradients")
        ):
            continue
        statement, own = program.facts.statement(call), _name(program, call)
        wrap = WrapStatements(
            source=program.source(call), rule=ID, nodes=(statement,), header=f"if {own}.sync_gradients:"
        )
        yield Alarm(
            call,
            f"`{quote(scheduler)}` was not prepared: it ticks in every micro-batch, while the optimizer steps once in a window, so the learning rate runs ahead",
            "put it under `if accelerator.sync_gradients:`, or prepare the scheduler",
            Fix((wrap,)) if own is not None and isinstance(statement, ast.Expr) else None,
        )
