"""What a comparison of precisions has found."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Measured:
    """One precision.

    Attributes:
        precision: "no", "bf16", "fp16" or "fp8".
        error: why it could not be run; all else is then empty.
        notes: what a reader has to know, such as that the device has no such precision.
        steps: optimizer steps, of which `skipped` were left out because gradients overflowed.
        stopped: whether the script was stopped after these steps, rather than at its end.
        seconds: that the steps took for which the speed was measured.
        steps_per_second: over these; None if there are too few.
        samples_per_second: of all processes together; None if no loader of torch was read.
        peak_memory: bytes, of the process that needs most: on the device what torch has allocated, on a CPU the whole process.
        device: the kind.
        losses: of each step, the mean over processes; None for a step without a backward.
        metrics: the last value of each figure that was logged or printed.
    """

    precision: str
    error: str = ""
    notes: list[str] = field(default_factory=list)
    steps: int = 0
    skipped: int = 0
    stopped: bool = False
    seconds: float = 0.0
    steps_per_second: float | None = None
    samples_per_second: float | None = None
    peak_memory: int | None = None
    device: str = ""
    losses: list[float | None] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)

    def last_loss(self) -> float | None:
        known = [loss for loss in self.losses if loss is not None]
        return known[-1] if known else None

    def mean_loss(self, last: int) -> float | None:
        """Of the last so many steps."""
        known = [loss for loss in self.losses if loss is not None][-last:]
        return sum(known) / len(known) if known else None


@dataclass
class Comparison:
    """All precisions of one script; differences are to the first one that ran."""

    script: str
    processes: int
    steps: int
    last: int
    runs: list[Measured] = field(default_factory=list)

    @property
    def first(self) -> Measured | None:
        return next((run for run in self.runs if not run.error), None)

    def against_first(self, run: Measured) -> dict[str, Any]:
        """Speed and memory as ratios, losses and figures as differences; None where either has none."""
        first = self.first
        if first is None or run.error:
            return {"speed": None, "memory": None, "loss_last": None, "loss_mean": None, "metrics": {}}
        return {
            "speed": _ratio(run.steps_per_second, first.steps_per_second),
            "memory": _ratio(run.peak_memory, first.peak_memory),
            "loss_last": _difference(run.last_loss(), first.last_loss()),
            "loss_mean": _difference(run.mean_loss(self.last), first.mean_loss(self.last)),
            "metrics": {
                name: value - first.metrics[name] for name, value in run.metrics.items() if name in first.metrics
            },
        }


def _ratio(value: float | None, first: float | None) -> float | None:
    return value / first if value is not None and first else None


def _difference(value: float | None, first: float | None) -> float | None:
    return None if value is None or first is None or math.isinf(first) else value - first
