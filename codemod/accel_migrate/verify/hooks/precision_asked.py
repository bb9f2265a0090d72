"""The precision that a run is to have, whatever its script says; and where the script's training then does not have it."""

from __future__ import annotations

import functools
import inspect
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accel_migrate.verify.hooks.measured import Measurement


def ask(precision: str, measurement: Measurement) -> None:
    """Let every Accelerator, of the bundled runtime and of Hugging Face, have this precision, and note what it logs."""
    for kind in _accelerators():
        _replace_precision(kind, precision, measurement)
        _note_logged(kind, measurement)


def _accelerators() -> list[Any]:
    found = []
    try:
        from accel_runtime.accelerator import Accelerator

        found.append(Accelerator)
    except ImportError:
        pass
    if (other := sys.modules.get("accelerate")) is not None:
        found.append(other.Accelerator)  # type: ignore[attr-defined]
    return found


def _replace_precision(kind: Any, precision: str, measurement: Measurement) -> None:
    plain = kind.__init__
    signature = inspect.signature(plain)

    @functools.wraps(plain)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        said = bound.arguments.get("mixed_precision")
        if said is not None and str(said) != precision:
            measurement.note(f"the script says mixed_precision={str(said)!r}; {precision!r} was put in its place")
        bound.arguments["mixed_precision"] = precision
        measurement.accelerators += 1
        plain(*bound.args, **bound.kwargs)

    kind.__init__ = init


def _note_logged(kind: Any, measurement: Measurement) -> None:
    plain = kind.log

    @functools.wraps(plain)
    def log(self: Any, values: Any, *args: Any, **kwargs: Any) -> Any:
        for name, value in dict(values).items():
            if isinstance(value, (int, float)) or getattr(value, "ndim", 1) == 0:
                measurement.logged[str(name)] = value
        return plain(self, values, *args, **kwargs)

    kind.log = log


def note_what_is_used(measurement: Measurement) -> None:
    """At the first backward: does the training have the precision that was asked for? Only the bundled runtime tells."""
    live = sys.modules.get("accel_runtime.live")
    accelerator = live.live_accelerator() if live is not None and not measurement.precision_seen else None  # type: ignore[attr-defined]
    if accelerator is None:
        return
    measurement.precision_seen = True
    used = accelerator.precision
    if used.mode == "fp16" and used.device_type == "cpu":
        measurement.note("computed on this CPU, for its losses: `accel launch` trains in full precision here")
    if used.dtype is not None and accelerator.exact and not used.used:
        measurement.note("the loss is computed outside of accelerator.autocast(): the training is in full precision")
    elif accelerator.float8 is not None and accelerator.float8.config.emulate:
        measurement.note(f"float8 is emulated on this {used.device_type.upper()}: same rounding, no speed")
