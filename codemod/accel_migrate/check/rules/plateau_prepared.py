"""`ReduceLROnPlateau` in `prepare`: Accelerate then steps it once for each process."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity
from accel_migrate.facts.values import Role
from accel_migrate.quoting import quote

ID = "plateau-prepared"
TITLE = "ReduceLROnPlateau is prepared: it counts each evaluation once for each process"
SEVERITY = Severity.ERROR
LIBRARIES = frozenset({"accelerate"})


def check(program: Program) -> Iterator[Alarm]:
    if (
        program.is_on("split_batches")
        or ast.unparse(program.setting("step_scheduler_with_optimizer") or ast.Constant(True)) == "False"
    ):
        return
    for preparation in program.preparations:
        if program.facts.has_role(preparation.argument, Role.METRIC_SCHEDULER):
            yield Alarm(
                preparation.argument,
                f"each `step(metric)` of the prepared `{quote(preparation.argument)}` runs num_processes times: its patience is over N times too early",
                "leave it out of prepare, and give it a metric that all processes share (gather_for_metrics or reduce first)",
            )
