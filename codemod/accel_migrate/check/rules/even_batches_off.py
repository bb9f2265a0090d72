"""Batches are not made even, and nothing lets the processes end at different steps."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity

ID = "even-batches-off"
TITLE = "even_batches=False without join_uneven_inputs"
SEVERITY = Severity.WARNING
LIBRARIES = frozenset({"accelerate"})


def check(program: Program) -> Iterator[Alarm]:
    if next(program.calls_of("join_uneven_inputs"), None) is not None or not any(
        loop.trains for loop in program.facts.loops.values()
    ):
        return
    for call in (*program.configurations, *program.makers):
        for keyword in call.keywords:
            if (
                keyword.arg == "even_batches"
                and isinstance(keyword.value, ast.Constant)
                and keyword.value.value is False
            ):
                yield Alarm(
                    keyword.value,
                    "some processes may have a batch more than others: they wait in its backward pass for those that are through",
                    "with accelerator.join_uneven_inputs([model]): around the training loop, or even_batches=True",
                )
