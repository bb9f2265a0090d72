"""The index lists of exact mode: this process's part of each batch that the original batch sampler draws."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from ..batches import Share
from ..world import World
from .in_step import in_step
from .position import Position
from .reading import Reading
from .replaying import Passed


class CutBatches:
    """A batch sampler that yields this process's indices of each batch of another one."""

    def __init__(self, batch_sampler: Any, world: World, reading: Reading) -> None:
        self.batch_sampler = batch_sampler
        self.world = world
        self.reading = reading
        self._armed: Iterator[Any] = iter(())

    def __len__(self) -> int:
        return len(self.batch_sampler)

    def __iter__(self) -> Iterator[Any]:
        return self._armed

    def arm(self, skip: int, drawn_at_the_start: bool, again: Position | None = None, replayed: int = 0) -> Armed:
        """Begin a pass; of the batches that were delivered before, `replayed` are handed to the workers."""
        batches: Iterator[Any] = iter(self.batch_sampler)
        if not drawn_at_the_start:
            batches = in_step(batches, self.world, ())
        left_out = skip + (again.batches if again is not None else 0) - replayed
        self._armed = armed = Armed(batches, left_out, self._cut, replayed)
        return armed

    def _cut(self, batch: Any) -> tuple[Share, Any]:
        indices = batch if isinstance(batch, list) else list(batch)
        share = Share.of(len(indices), self.world.size, self.world.rank)
        return share, self.reading.wanted(indices, share) if self.reading.reads_all else indices[share.start : share.stop]


class Armed:
    """The index lists of one pass.

    Attributes:
        shares: receives the share of each batch in turn.
        rewind: undoes what new workers have drawn from the streams, where the pass had none.
    """

    def __init__(self, batches: Iterator[Any], skip: int, cut: Callable[[Any], tuple[Share, Any]], replayed: int = 0) -> None:
        self.batches = batches
        self.replayed = replayed
        self.skip = skip
        self.cut = cut
        self.shares: deque[Share] = deque()
        self.rewind: Callable[[], None] | None = None

    def __iter__(self) -> Armed:
        return self

    def __next__(self) -> Any:
        if self.skip or self.rewind is not None:
            self.pass_over()
        share, wanted = self.cut(next(self.batches))
        if self.replayed:
            self.replayed -= 1
            return Passed(wanted)
        self.shares.append(share)
        return wanted

    def pass_over(self) -> None:
        """Draw the batches that are left out, unless that is done already."""
        if self.rewind is not None:
            self.rewind()
            self.rewind = None
        deque(itertools.islice(self.batches, self.skip), maxlen=0)
        self.skip = 0
