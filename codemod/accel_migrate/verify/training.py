"""Compare two trainings step by step: losses, learning rates, gradients; and the processes of one with each other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from accel_migrate.verify.records import Record, Step, global_losses
from accel_migrate.verify.report import Difference

TIMES_THE_FLOOR = 10.0
_FIRST_STEPS = 5
"""In so many steps rounding has not grown yet: a control run that differs here has met other random numbers."""
LOST = 0.1
_GRADIENTS = 10.0
"""Gradients may differ by so many times as much as losses: they are small differences of large numbers."""


@dataclass(frozen=True)
class Floor:
    """How far rounding alone takes the loss and the gradient's norm, relatively, at each step."""

    losses: tuple[float, ...] = ()
    gradients: tuple[float, ...] = ()

    def at(self, kind: str, step: int, relative: float) -> float:
        """The largest difference allowed up to step number `step`, from 0.

        Where rounding grows, it may do so a step earlier than in the control run.
        """
        figures = self.losses if kind == "loss" else self.gradients
        least = relative * (1.0 if kind == "loss" else _GRADIENTS)
        return max(least, TIMES_THE_FLOOR * max(figures[: step + 2], default=0.0))


def noise_floor(original: Record, control: Record, relative: float, trusted: bool = False) -> Floor | None:
    """Measured by a control run; None where that was another training, which a `trusted` one is not."""
    losses = [apart(a.loss, b.loss) for a, b in zip(original.steps, control.steps, strict=False)]
    gradients = [apart(_norm(a), _norm(b)) for a, b in zip(original.steps, control.steps, strict=False)]
    if len(original.steps) != len(control.steps) or (not trusted and max(losses[:_FIRST_STEPS], default=0.0) > relative):
        return None
    return Floor(tuple(losses), tuple(gradients))


def lost_in_rounding(floor: Floor | None, steps: int) -> list[str]:
    """From where on differences say nothing, since rounding alone makes such ones."""
    lost = next((step for step, loss in enumerate(floor.losses) if TIMES_THE_FLOOR * loss > LOST), None) if floor else None
    if lost is None:
        return []
    return [f"losses of optimizer steps {lost + 1} to {steps}: rounding alone changes them by more than {LOST / TIMES_THE_FLOOR:.0%} (a lower learning rate or float64 helps)"]


def compare_training(
    original: Record, records: Sequence[Record], floor: Floor | None, relative: float, largest: dict[str, float]
) -> list[Difference]:
    """Differences by kind, each at its first step; `largest` receives the largest relative differences."""
    floor = floor or Floor()
    found = [*_replicas(records)]
    fewest, most = min(len(r.steps) for r in records), max(len(r.steps) for r in records)
    if fewest != most:
        found.append(Difference("steps", f"the processes take different numbers of optimizer steps: {_listed(records)}"))
    elif most != len(original.steps):
        found.append(Difference("steps", f"{most} optimizer steps instead of {len(original.steps)}"))
    series = {
        "loss": ([step.loss for step in original.steps], global_losses(records)),
        "gradient": ([_norm(step) for step in original.steps], [_norm(step) for step in records[0].steps]),
    }
    found += [d for kind, (a, b) in series.items() if (d := _first(kind, a, b, floor, relative, largest))]
    rates = _rates(original.steps, records[0].steps, largest)
    return [*found, *([rates] if rates else [])]


def _listed(records: Sequence[Record]) -> str:
    return ", ".join(f"process {rank} {len(record.steps)}" for rank, record in enumerate(records))


def _first(
    kind: str, one: Sequence[float], other: Sequence[float], floor: Floor, relative: float, largest: dict[str, float]
) -> Difference | None:
    name = {"loss": "the loss", "gradient": "the norm of the gradient"}[kind]
    first = None
    for step, (a, b) in enumerate(zip(one, other, strict=False)):
        distance = apart(a, b)
        largest[kind] = max(largest.get(kind, 0.0), distance)
        if first is None and not distance <= floor.at(kind, step, relative):
            text = f"{name} is {b:.6g} instead of {a:.6g} at optimizer step {step + 1}"
            first = Difference(kind, text, step + 1, distance)
    return first


def _rates(one: Sequence[Step], other: Sequence[Step], largest: dict[str, float]) -> Difference | None:
    first = None
    for step, (a, b) in enumerate(zip(one, other, strict=False), 1):
        pairs = list(zip(a.rates, b.rates, strict=False))
        distance = max((apart(x, y) for x, y in pairs), default=0.0)
        largest["learning-rate"] = max(largest.get("learning-rate", 0.0), distance)
        if first is None and distance > 1e-6:
            x, y = next(pair for pair in pairs if apart(*pair) > 1e-6)
            first = Difference("learning-rate", f"the learning rate is {y:.6g} instead of {x:.6g} at optimizer step {step}", step, distance)
    return first


def _replicas(records: Sequence[Record]) -> Iterator[Difference]:
    """Replicas hold bitwise the same weights after every step."""
    for number, steps in enumerate(zip(*(record.steps for record in records), strict=False), 1):
        for rank, step in enumerate(steps[1:], 1):
            if step.weights != steps[0].weights:
                pairs = zip(step.weights, steps[0].weights, strict=False)
                place = next((i for i, (a, b) in enumerate(pairs) if a != b), 0)
                name = records[0].name(step, place)
                text = f"after optimizer step {number} processes 0 and {rank} hold different weights (the first is {name})"
                yield Difference("replicas", text, number)
                return


def _norm(step: Step) -> float:
    """Of the whole gradient; parameters without one count nothing."""
    return math.sqrt(sum(g * g for g in step.gradients if g > 0)) if step.gradients else 0.0


def apart(a: float, b: float) -> float:
    """Relative difference; figures that are not finite are equal to their like only."""
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 0.0
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.inf
    scale = max(abs(a), abs(b))
    return abs(a - b) / scale if abs(a - b) > 1e-9 else 0.0
