"""Where the batches of a loader in per-process mode come from.

A source opens a pass, over (rows of the global batch that are no repetitions, 0 if none is one, -1 if unknown; batch).
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset

from ..world import World
from .dispatch import dispatch, per_process_steps
from .face import rebuild
from .order import Order, in_step, samplers
from .samplers import BatchSamplerShard
from .streams import CountedCollate, CountedStream, IterableDatasetShard

_WORKER_STRIDE = 1_000_003

Items = Iterator[tuple[int, Any]]


class Share(NamedTuple):
    """This process's place among those that draw different data, and how many these are."""

    index: int
    count: int


class Source:
    """Base: the loader's own batches, which are this process's already.

    Attributes:
        reads_original: whether a pass reads the user's loader as it is.
    """

    reads_original = False

    def __init__(self, world: World, original: DataLoader[Any], share: Share):
        self.world = world
        self.original = original
        self.share = share
        self.epoch = 0

    def open(self, skip: int) -> Items:
        """Begin a pass, `skip` batches later than usual."""
        return ((-1, batch) for batch in itertools.islice(iter(self.original), skip, None))

    def length(self) -> int:
        """Batches of this process in a whole pass.

        Raises:
            TypeError: the data has no length.
        """
        return len(self.original)

    def known_length(self, skip: int) -> int | None:
        """Batches in a pass, if the length can be relied on: not that of a stream."""
        if isinstance(self.original.dataset, IterableDataset):
            return None
        try:
            return max(self.length() - skip, 0)
        except (TypeError, NotImplementedError):
            return None

    def set_epoch(self, epoch: int) -> None:
        """Tell the epoch to whatever knows epochs."""
        self.epoch = epoch
        for part in self._parts():
            if hasattr(part, "set_epoch"):
                part.set_epoch(epoch)

    def epoch_chosen_by_user(self, told: int | None) -> int | None:
        """The epoch which the user gave to a sampler or data set itself, if it is not the one `told` last."""
        for part in self._parts():
            chosen = getattr(part, "epoch", None)
            if hasattr(part, "set_epoch") and isinstance(chosen, int) and chosen != (told or 0):
                return chosen
        return None

    @property
    def batch_sampler(self) -> Any:
        """What gives this process's batches."""
        return self.original.batch_sampler

    def total_batch_size(self) -> int | None:
        """Samples in a full global batch."""
        size = self.original.batch_size or getattr(self.original.batch_sampler, "batch_size", None)
        return None if size is None else size * self.share.count

    def _parts(self) -> list[Any]:
        return [*samplers(self.original), self.original.dataset]


class Own(Source):
    """A loader that is shared out already: a `DistributedSampler`, or a data set sharded by source."""

    reads_original = True


class Sharded(Source):
    """Map-style data: a share of the batch sampler's batches; only their samples are read."""

    def __init__(self, world: World, original: DataLoader[Any], share: Share, even_batches: bool = True):
        super().__init__(world, original, share)
        self.order = Order(world, original)
        self.batched = original.batch_sampler is not None or isinstance(original.sampler, BatchSampler)
        batches = original.batch_sampler or original.sampler
        self.shard = BatchSamplerShard(
            batches if self.batched else BatchSampler(batches, 1, drop_last=False), share.count, share.index, even_batches=even_batches
        )
        self.armed = ArmedSampler()
        batching = {"batch_sampler": self.armed} if original.batch_sampler is not None else {"sampler": self.armed, "batch_size": None}
        self.inner = rebuild(original, original.dataset, generator=torch.Generator(), **batching)

    def open(self, skip: int) -> Items:
        self.order.begin(self.epoch)
        counts = self.armed.arm(in_step(self.shard.counted(skip), self.order), self.batched)
        self._seed_workers()
        if skip:
            self.armed.draw_first()
        return ((counts.popleft(), batch) for batch in iter(self.inner))

    def length(self) -> int:
        return len(self.shard)

    @property
    def batch_sampler(self) -> Any:
        return self.shard

    def _seed_workers(self) -> None:
        """Take from the stream what the plain loader takes; give the workers of each process seeds of their own."""
        if self.inner.persistent_workers and self.inner._iterator is not None:
            return
        seed = int(torch.empty((), dtype=torch.int64).random_(generator=self.original.generator).item())
        self.inner.generator.manual_seed((seed + self.share.index * _WORKER_STRIDE) % 2**63)


class ArmedSampler:
    """Yields the indices of one pass, and notes their counts in a queue: workers deliver in order."""

    def __init__(self) -> None:
        self._indices: Iterator[Any] = iter(())

    def arm(self, counted: Iterable[tuple[int, Any]], batched: bool) -> deque[int]:
        """Begin a pass; the queue returned receives the count of each batch in turn, -1 for data without batches."""
        counts: deque[int] = deque()
        self._indices = self._note(counted, counts, batched)
        return counts

    def draw_first(self) -> None:
        """Draw the first indices of the pass now: the order does not depend on what draws later."""
        first = list(itertools.islice(self._indices, 1))
        self._indices = itertools.chain(first, self._indices)

    def __iter__(self) -> Iterator[Any]:
        return self._indices

    @staticmethod
    def _note(counted: Iterable[tuple[int, Any]], counts: deque[int], batched: bool) -> Iterator[Any]:
        for count, indices in counted:
            counts.append(count if batched else -1)
            yield indices if batched else indices[0]


class Stream(Source):
    """A stream that every process reads, and of which each keeps its part."""

    def __init__(self, world: World, original: DataLoader[Any], share: Share):
        super().__init__(world, original, share)
        self.order = Order(world, original)
        self.shard = IterableDatasetShard(original.dataset, original.batch_size, original.drop_last, share.count, share.index)
        collate = CountedCollate(original.collate_fn, original.batch_size is not None)
        self.counted = CountedStream(self.shard)
        self.inner = rebuild(original, self.counted, collate_fn=collate, batch_size=None)

    def open(self, skip: int) -> Items:
        self.order.begin(self.epoch)
        in_main = self.inner.num_workers == 0
        self.counted.skip = skip if in_main else 0
        self.shard.epoch = self.epoch
        pairs = iter(self.inner)
        return in_step(pairs, self.order) if in_main else itertools.islice(pairs, skip, None)

    def length(self) -> int:
        return len(self.counted)


class Batches(Source):
    """A loader with an iteration of its own: every process reads it, and keeps every N-th batch."""

    def __init__(self, world: World, original: DataLoader[Any], share: Share):
        super().__init__(world, original, share)
        self.order = Order(world, original)
        self.shard = IterableDatasetShard(original, None, getattr(original, "drop_last", False), share.count, share.index)

    def open(self, skip: int) -> Items:
        self.order.begin(self.epoch)
        return in_step(self.shard.counted(skip), self.order)

    def length(self) -> int:
        return len(self.shard)

    def known_length(self, skip: int) -> int | None:
        return None


class Dispatched(Source):
    """The main process reads, and sends every process its part."""

    def __init__(self, world: World, original: DataLoader[Any], slice_fn: Any = None):
        super().__init__(world, original, Share(world.rank, world.size))
        self.order = Order(world, original)
        self.slice_fn = slice_fn

    def open(self, skip: int) -> Items:
        if not self.world.is_main:
            return dispatch(self.world, None)
        self.order.begin_alone(self.epoch)
        steps = per_process_steps(self.original, self.world.size, bool(self.original.drop_last), skip, self.slice_fn)
        return dispatch(self.world, steps)

    def length(self) -> int:
        rounds = len(self.original) / self.world.size
        return math.floor(rounds) if self.original.drop_last else math.ceil(rounds)

    def known_length(self, skip: int) -> int | None:
        return None
