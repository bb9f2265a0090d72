"""torch's own mixed precision beside an accelerator."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity
from accel_migrate.facts.catalog import SCALERS
from accel_migrate.facts.values import Made, Role
from accel_migrate.quoting import quote

ID = "native-amp-left"
TITLE = "A GradScaler of torch's beside the accelerator"
SEVERITY = Severity.ERROR


def check(program: Program) -> Iterator[Alarm]:
    if not program.preparations:
        return
    for call, name in program.facts.external.items():
        if name in SCALERS and _steps(program, call):
            yield Alarm(
                call,
                f"`{quote(call)}` scales and unscales beside the prepared optimizer, which skips steps and unscales by itself: steps are lost or taken with scaled gradients",
                'leave the scaler out and ask for the precision: Accelerator(mixed_precision="fp16"), accelerator.backward(loss), accelerator.clip_grad_norm_(...)',
            )


def _steps(program: Program, maker: ast.Call) -> bool:
    """Whether the scaler steps a prepared optimizer, or scales the loss of a prepared model."""
    for call, (base, method) in program.facts.methods.items():
        of_this = any(isinstance(v, Made) and v.role is Role.SCALER and v.site is maker for v in base)
        if of_this and ((method == "step" and call.args and program.is_prepared(call.args[0])) or method == "scale"):
            return True
    return False
