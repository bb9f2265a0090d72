"""`torch.nn.utils.clip_grad_norm_` becomes the accelerator's, which sees unscaled, synchronised gradients."""

from __future__ import annotations

from collections.abc import Iterator

from accel_migrate.access import Unreachable
from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding
from accel_migrate.facts import catalog
from accel_migrate.rules.backward import out_of_reach

ID = "clip-gradients"
TITLE = "Clip gradients through the accelerator"
WHY = "gradients are clipped after they are unscaled and averaged"


def apply(context: Context) -> Iterator[Edit | Finding]:
    for call in context.calls_of(*catalog.CLIPPING):
        method = catalog.CLIPPING[context.facts.external[call]]
        try:
            yield context.replace(ID, call.func, context.say(f"@accelerator@.{method}", call), WHY)
        except Unreachable:
            yield out_of_reach(context, call)
