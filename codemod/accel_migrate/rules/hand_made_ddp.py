"""Hand-written DistributedDataParallel becomes the accelerator's: process group, ranks, wrapper and collectives.

The sampler stays, so that every process sees the samples it saw; so do the reductions that the script has. It runs late,
since it says ranks and conditions in the accelerator's words where other rules brought the accelerator.
"""

from __future__ import annotations

from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding
from accel_migrate.facts.distributed import process_group_calls
from accel_migrate.hand_made import collectives, group, ranks, samplers, turns, wrapper
from accel_migrate.plan import Plan

ID = "hand-made-ddp"
TITLE = "Replace hand-written DistributedDataParallel"
WHY = "the accelerator makes the process group and averages the gradients"
LATE = True


def apply(context: Context) -> Iterator[Edit | Finding]:
    if not context.distributed:
        yield from group.optional_groups(context) if process_group_calls(context.facts) else collectives.without_group(context)
        return
    yield from group.edits(context)
    yield from wrapper.edits(context)
    yield from samplers.edits(context)
    yield from ranks.edits(context)
    yield from turns.edits(context)
    yield from collectives.edits(context)


def finish(context: Context, plan: Plan) -> Iterator[Edit | Finding]:
    if context.distributed:
        turns.prepared_after(context, plan)
    return iter(())
