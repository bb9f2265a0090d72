"""Switch off one suspect after the other and run again: which one makes the difference vanish?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from accel_migrate.verify.records import Record
from accel_migrate.verify.report import Comparison
from accel_migrate.verify.runs import Runs
from accel_migrate.verify.training import compare_training, noise_floor

EXPECTED = frozenset({"dropout", "augmentation", "shuffle"})
"""Other random numbers for these are equal in distribution: the same experiment."""
_TOLD_BY = ("loss", "gradient", "replicas")
_ALWAYS = ("noise",)
_OF_SEVERAL = ("denominators",)
_ORDER = ("dropout", "augmentation", "shuffle", "batchnorm", "precision", "denominators", "noise")


@dataclass(frozen=True)
class Cause:
    """What had to be switched off for both trainings to be the same; empty where nothing helped."""

    switched_off: tuple[str, ...] = ()


def find_cause(runs: Runs, processes: int, result: Comparison, base: tuple[str, ...] = ()) -> Cause:
    """Try what the trainings use, each alone, then all together and as few of them as it takes; `base` is switched off in all of it."""
    first = min(d.step for d in result.differences if d.kind in ("loss", "gradient"))
    used = set().union(*(r.uses for r in (*runs.original().records, *runs.migrated(processes).records)), _ALWAYS, _OF_SEVERAL if processes > 1 else ())
    suspects = [name for name in _ORDER if name in used and name not in base]
    for name in suspects:
        if _vanishes(runs, processes, (*base, name), first):
            return Cause((name,))
    if len(suspects) < 2 or not _vanishes(runs, processes, (*base, *suspects), first):
        return Cause()
    for name in reversed(suspects[:]):
        fewer = tuple(other for other in suspects if other != name)
        if len(fewer) > 1 and _vanishes(runs, processes, (*base, *fewer), first):
            suspects.remove(name)
    return Cause(tuple(suspects))


def is_expected(cause: Cause, records: Sequence[Record], of_several: bool, rounds_alike: bool = False) -> bool:
    """Whether the trainings are the same but for other random numbers; the processes must not all draw the same ones.

    An original `of_several` processes may take BatchNorm's statistics over their parts: the whole batch is what one process has.
    Low precision is expected to round where both have the same, which is for the caller to say.
    """
    allowed = EXPECTED | ({"precision"} if rounds_alike else set()) | ({"noise"} if draw_numbers_of_their_own(records) else set()) | ({"batchnorm"} if of_several else set())
    return bool(cause.switched_off) and set(cause.switched_off) <= allowed


def draw_numbers_of_their_own(records: Sequence[Record]) -> bool:
    """Whether the processes' random streams have been in different states at the first step."""
    states = {record.steps[0].random for record in records if record.steps}
    return len(states) == len(records) > 1


def _vanishes(runs: Runs, processes: int, off: tuple[str, ...], first: int) -> bool:
    """Whether the trainings agree up to the step at which they parted, and the one after, or differ by no more than rounding does."""
    steps = first + 1 if not runs.request.steps else min(first + 1, runs.request.steps)
    original, got = runs.original(off=off, steps=steps), runs.migrated(processes, off=off, steps=steps)
    one, relative = original.records[0], runs.request.relative
    if not (original.run.succeeded and got.run.succeeded) or not one.steps or not all(math.isfinite(step.loss) for step in one.steps):
        return False
    parted = [d.step for d in compare_training(one, got.records, None, relative, {}) if d.kind in _TOLD_BY]
    if not parted or min(parted) == 1:
        return not parted
    nudged = runs.original(off=off, steps=steps, nudged=True)
    floor = noise_floor(one, nudged.records[0], relative, trusted=True) if nudged.run.succeeded else None
    return not any(d.kind in _TOLD_BY for d in compare_training(one, got.records, floor, relative, {}))
