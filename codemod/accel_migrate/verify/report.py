"""What a verification has found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

SAME, EXPECTED, DIFFERENT = "same", "expected differences", "different"
MOST = 5
"""Differences shown of one kind."""


@dataclass(frozen=True)
class Difference:
    """One thing in which the runs differ.

    `kind` is one of steps, loss, learning-rate, gradient, replicas, samples, order, weights, lines, files, loading, batch-size, calls, fault, hang, timeout,
    crash; `step`
    counts optimizer steps from 1, 0 where none is meant; `size` is relative.
    """

    kind: str
    text: str
    step: int = 0
    size: float = 0.0
    expected: bool = False


@dataclass
class Comparison:
    """The original on one process and the migrated script on `processes`.

    `reasons` say why they differ, best first; `largest` holds the largest relative difference of each kind of figure;
    `switched_off` what had to be switched off to compare the rest; `times_as_large` are the original's batches where each
    process takes one of its own, and `original_processes` those on which it ran; `loaded` counts states of models and optimizers that were tried in the other script;
    `apart` is the relative difference of the losses, step by step;
    `unverified` what was not compared.
    """

    processes: int
    seconds: float = 0.0
    steps: int = 0
    differences: list[Difference] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    largest: dict[str, float] = field(default_factory=dict)
    floors: dict[str, float] = field(default_factory=dict)
    switched_off: tuple[str, ...] = ()
    times_as_large: int = 1
    original_processes: int = 1
    loaded: int = 0
    apart: list[float] = field(default_factory=list)
    unverified: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        if any(not difference.expected for difference in self.differences):
            return DIFFERENT
        return EXPECTED if self.differences else SAME


@dataclass
class Report:
    """A whole verification; `losses` are by run, the original's under "original", and under what sets it apart where it ran otherwise too.

    `seconds` are those of the runs and comparisons, `total_seconds` those of the command, the start of an interpreter included.
    """

    original: str
    migrated: str
    comparisons: list[Comparison] = field(default_factory=list)
    losses: dict[str, list[float]] = field(default_factory=dict)
    seconds: float = 0.0
    total_seconds: float = 0.0

    @property
    def took(self) -> str:
        """The time of all of it, for a reader."""
        start = self.total_seconds - self.seconds
        return f"{self.total_seconds:.1f} s, {start:.1f} s of them to start" if start > 0 else f"{self.seconds:.1f} s"

    @property
    def verdict(self) -> str:
        verdicts = [comparison.verdict for comparison in self.comparisons]
        return next((verdict for verdict in (DIFFERENT, EXPECTED) if verdict in verdicts), SAME)


def few(reasons: Sequence[str]) -> list[str]:
    """A few of them, keys that are missing as well as those that are new."""
    new = [reason for reason in reasons if reason.endswith(" is new")]
    others = [reason for reason in reasons if reason not in new]
    return (others[: MOST - min(len(new), 2)] + new)[:MOST]
