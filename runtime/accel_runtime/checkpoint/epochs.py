"""Counting epochs so that a resumed training goes on counting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..batches import Tracker


class Epochs:
    """The loops over epochs of a script: which one is running, in which epoch, and whether its data is through."""

    def __init__(self, tracker: Tracker) -> None:
        self.tracker = tracker
        self.loop = -1
        self.epoch: int | None = None
        self._ended: Any = None
        self._loaded: dict[str, Any] | None = None

    def count(self, start: int, stop: int) -> Iterator[int]:
        """The epochs of the next loop that are left."""
        self.loop += 1
        if self._loaded is not None and self.loop < self._loaded["loop"]:
            return
        if self._loaded is not None and self.loop == self._loaded["loop"]:
            start, self._loaded = max(start, self._loaded["next"]), None
        for epoch in range(start, stop):
            self.epoch, self._ended = epoch, self.tracker.ended
            yield epoch
        self.epoch = None

    def state(self) -> dict[str, Any]:
        """The loop in progress and the epoch to go on with."""
        if self._loaded is not None:
            return self._loaded
        if self.epoch is None:
            return {"loop": self.loop + 1, "next": 0}
        done = self.tracker.ended is not self._ended and not any(
            hasattr(run.source, "root") for run in self.tracker.runs
        )
        return {"loop": self.loop, "next": self.epoch + done}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from `state`: the loops before it are over."""
        self.loop, self.epoch = -1, None
        self._loaded = state
