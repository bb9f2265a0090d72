"""Switch off one suspect after the other and run again: which one makes the difference vanish?"""

from __future__ import annotations

from dataclasses import dataclass

from accel_migrate.verify.report import Comparison
from accel_migrate.verify.runs import Runs
from accel_migrate.verify.training import compare_training

EXPECTED_CAUSES = frozenset({"dropout", "augmentation", "shuffle"})
"""Other random numbers for these are equal in distribution: the same experiment."""
_ALWAYS = ("noise",)
_ORDER = ("dropout", "augmentation", "shuffle", "batchnorm", "noise")


@dataclass(frozen=True)
class Cause:
    """What had to be switched off for both trainings to be the same; empty where nothing helped."""

    switched_off: tuple[str, ...] = ()


def find_cause(runs: Runs, processes: int, result: Comparison) -> Cause:
    """Try what the trainings use, each alone, then all that may differ by chance together."""
    first = min(d.step for d in result.differences if d.kind in ("loss", "gradient"))
    used = set().union(*(r.uses for r in (*runs.original().records, *runs.migrated(processes).records)), _ALWAYS)
    suspects = [name for name in _ORDER if name in used]
    for name in suspects:
        if _vanishes(runs, processes, (name,), first):
            return Cause((name,))
    together = tuple(name for name in suspects if name in EXPECTED_CAUSES)
    return Cause(together) if len(together) > 1 and _vanishes(runs, processes, together, first) else Cause()


def _vanishes(runs: Runs, processes: int, off: tuple[str, ...], first: int) -> bool:
    """Whether the trainings agree up to the step at which they parted, and the one after."""
    steps = first + 1 if not runs.request.steps else min(first + 1, runs.request.steps)
    original, got = runs.original(off=off, steps=steps), runs.migrated(processes, off=off, steps=steps)
    if not (original.run.succeeded and got.run.succeeded) or not original.records[0].steps:
        return False
    found = compare_training(original.records[0], got.records, None, runs.request.relative, {})
    return not any(d.kind in ("loss", "gradient", "replicas") for d in found)
