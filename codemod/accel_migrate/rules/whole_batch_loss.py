"""A loss that looks at the whole batch is computed from it: the rows of all processes are gathered with their gradients.

Which losses these are is decided with all findings at hand, see `accel_migrate.decided`.
"""

from __future__ import annotations

from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding
from accel_migrate.rules._gathering import gather_at

ID = "whole-batch-loss"
TITLE = "Compute losses that look at the whole batch from the whole batch"
WHY = "this loss looks at the whole batch: every process computes it from all rows, and its gradient counts once"


def apply(context: Context) -> Iterator[Edit | Finding]:
    for gather in context.facts.gathers.values():
        if gather.backward is not None:
            yield from gather_at(context, gather, ID, WHY)
