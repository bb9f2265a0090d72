"""Low precision (autocast, weights in bfloat16 or float16): what only its rounding makes differ is expected to."""

from __future__ import annotations

from collections.abc import Sequence

from accel_migrate.verify.records import Record
from accel_migrate.verify.report import Comparison
from accel_migrate.verify.runs import Runs

RAISED = ("precision",)
"""What is switched off to compute everything in float32."""
_EPS = {"bfloat16": 2.0**-7, "float16": 2.0**-10}
_TIMES = 4.0
"""Before the first step a loss may differ by so many units in the last place."""


def is_low(runs: Runs, processes: int) -> bool:
    """Whether the original or the migrated run computes in low precision."""
    return any("precision" in record.uses for record in (*runs.original().records, *runs.migrated(processes).records))


def rounds_alike(original: Record, records: Sequence[Record], result: Comparison) -> bool:
    """Whether both lower the same things to the same types, and begin no further apart than these round."""
    lowered = _lowered([original])
    most = _TIMES * max((_EPS[name.split()[-1]] for name in lowered), default=0.0)
    return lowered == _lowered(records) and max(result.apart[:1], default=0.0) <= most


def reason(original: Record, records: Sequence[Record]) -> str:
    """Where everything in float32 is the same."""
    theirs, ours = _lowered([original]), _lowered(records)
    if theirs != ours:
        return f"precision: the original computes with {_listed(theirs)}, the migrated script with {_listed(ours)}; in float32 this makes no difference"
    return f"precision: {_listed(ours)} rounds other sums in the two, which float32 does not"


def _lowered(records: Sequence[Record]) -> set[str]:
    return {name for record in records for name in record.uses if name.split()[-1] in _EPS}


def _listed(names: set[str]) -> str:
    return " and ".join(sorted(names)) or "full precision"
