"""Exact mode: every process receives its rows of each batch that the original loader would have yielded.

How a loader is cut depends on what it is:

* map-style data with a batch sampler: the sampler's batches are cut, each process reads only its own samples (see `reading`
  for data sets that draw);
* a stream, or `collate="global"` or "rows": every process reads all, and the list of samples is cut before (or after) it is
  collated;
* `dispatch_batches=True`: the main process reads, the others receive whole batches and cut them;
* no automatic batching, or a subclass with its own `__iter__`: the batches themselves are cut along dimension 0.

On one process the original loader is iterated over as it is. The random streams are consumed as by the plain loader.
"""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    default_collate,
)
from torch.utils.data.distributed import DistributedSampler

from .. import fingerprints
from ..batches import Share
from ..collectives import Room, scatter_object
from ..nested import find_batch_size, leaves, slice_rows
from ..rng import put_states, take_states
from ..world import World
from .cut_batches import CutBatches
from .face import iterates_plainly, rebuild
from .in_step import in_step, share_streams_of
from .position import Position, put, take
from .reading import Reading
from .replaying import Replayed, may_draw_in_workers
from .streams import Later

_DRAWS_AT_THE_START = (RandomSampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler)
_WORKER_STRIDE = 1_000_003
_END = object()

Pairs = Iterator[tuple[Share | None, Any]]


class Cutter(Protocol):
    """Opens passes over this process's rows."""

    def open(self, again: Position | None = None) -> Pairs:
        """Begin a pass: each batch with its share. `again`: pass at once over the batches that were delivered before."""
        ...


def cutter(original: DataLoader[Any], world: World, collate: str, skip: int, dispatch: bool = False) -> Cutter:
    """How `original` is cut.

    Raises:
        ValueError: the loader holds only a part of the data already.
    """
    _refuse_sharded(original, world)
    if dispatch and world.size > 1:
        return DispatchCutter(original, world, skip)
    if not iterates_plainly(original) or (original.batch_sampler is None and original.batch_size is None):
        return BatchCutter(original, world, skip)
    if isinstance(original.dataset, IterableDataset) or collate != "local":
        return CollateCutter(original, world, collate, skip)
    return SamplerCutter(original, world, skip)


class SamplerCutter:
    """Cuts the index lists of the batch sampler. Their sizes wait in a queue, since workers deliver in order."""

    def __init__(self, original: DataLoader[Any], world: World, skip: int) -> None:
        self.original = original
        self.world = world
        self.skip = skip
        self.reading = Reading(original, world)
        self.sampler = CutBatches(original.batch_sampler, world, self.reading)
        self.own: dict[str, Any] = {"generator": torch.Generator()} if world.size > 1 else {}
        if not self.reading.fixed:
            self.own["collate_fn"] = self.reading
        self.inner = rebuild(original, original.dataset, batch_sampler=self.sampler, **self.own)

    def open(self, again: Position | None = None) -> Pairs:
        self.reading.begin(share_streams_of(self.original, self.world), again)
        replayed = again.batches if again is not None and not again.kept_workers and may_draw_in_workers(self.original) else 0
        if replayed:
            dataset = Replayed(self.original.dataset, self.original.collate_fn)
            self.inner = rebuild(self.original, dataset, batch_sampler=self.sampler, **{**self.own, "collate_fn": dataset.collate})
        armed = self.sampler.arm(self.skip, _drawn_at_the_start(self.original), again, replayed)
        if again is not None and again.kept_workers:
            armed.rewind = functools.partial(put, self.original, take(self.original))
        if self.world.size > 1 and not (self.inner.persistent_workers and self.inner._iterator is not None):
            self._seed_workers()
        batches = iter(self.inner)
        if again is not None:
            armed.pass_over()
        deque(itertools.islice(batches, replayed), maxlen=0)
        return ((armed.shares.popleft(), batch) for batch in batches)

    def _seed_workers(self) -> None:
        """Take from the stream what the plain loader takes; give the workers of each process seeds of their own."""
        seed = int(torch.empty((), dtype=torch.int64).random_(generator=self.original.generator).item())
        self.inner.generator.manual_seed((seed + self.world.rank * _WORKER_STRIDE) % 2**63)


class CollateCutter:
    """Reads whole batches everywhere and cuts them where they are collated."""

    def __init__(self, original: DataLoader[Any], world: World, collate: str, skip: int) -> None:
        self.original = original
        self.world = world
        self.skip = skip
        batching = (
            {"batch_size": original.batch_size, "drop_last": original.drop_last}
            if isinstance(original.dataset, IterableDataset)
            else {"batch_sampler": original.batch_sampler}
        )
        collate_fn = _CutCollate(original.collate_fn, world, collate)
        self.later = _later(original)
        self.inner = rebuild(original, original.dataset if self.later is None else self.later, collate_fn=collate_fn, **batching)

    def open(self, again: Position | None = None) -> Pairs:
        generators = share_streams_of(self.original, self.world)
        if self.later is not None:
            return self._open_later(self.later, generators, again)
        pairs = iter(self.inner)
        if self.inner.num_workers == 0:
            pairs = in_step(pairs, self.world, generators)
        return ((share, batch) for share, batch in _without_first(pairs, self.skip, again))

    def _open_later(self, later: Later, generators: list[torch.Generator], again: Position | None) -> Pairs:
        left_out = self.skip if again is None else self.skip + again.batches
        later.samples = left_out * self.original.batch_size  # type: ignore[operator]
        pairs = iter(self.inner)
        if again is not None:
            later.pass_over()
        return in_step(pairs, self.world, generators)


class BatchCutter:
    """Iterates over the original and cuts what it yields; a batch without rows is passed on as it is."""

    def __init__(self, original: DataLoader[Any], world: World, skip: int) -> None:
        self.original = original
        self.world = world
        self.skip = skip

    def open(self, again: Position | None = None) -> Pairs:
        generators = share_streams_of(self.original, self.world)
        batches = iter(self.original)
        if getattr(self.original, "num_workers", 0) == 0:
            batches = in_step(batches, self.world, generators)
        return map(self._cut, _without_first(batches, self.skip, again))

    def _cut(self, batch: Any, rank: int | None = None) -> tuple[Share | None, Any]:
        total = find_batch_size(batch)
        if total is None:
            return None, batch
        share = Share.of(total, self.world.size, self.world.rank if rank is None else rank)
        return share, slice_rows(batch, share.start, share.stop, total)


class DispatchCutter(BatchCutter):
    """The main process iterates over the original for all; it sends each its part of a batch and the streams that reading it used."""

    def open(self, again: Position | None = None) -> Pairs:
        share_streams_of(self.original, self.world)
        return self._receive(self._read(again) if self.world.rank == 0 else itertools.repeat(None))

    def _receive(self, source: Iterable[list[Any] | None]) -> Pairs:
        room = Room()
        for message in source:
            found, part, states = scatter_object(self.world, message, room=room)
            if found is None:
                if self.world.rank == 0:
                    continue  # the error itself comes from the source
                raise RuntimeError(f"the main process failed to read the next batch: {part}")
            if states is not None and self.world.rank != 0:
                put_states(states)
            if not found:
                return
            yield part

    def _read(self, again: Position | None) -> Iterator[list[Any]]:
        batches = None if again is None else _without_first(iter(self.original), self.skip, again)
        return self._messages(batches)

    def _messages(self, batches: Iterator[Any] | None) -> Iterator[list[Any]]:
        while True:
            before = fingerprints.of_main_streams()
            ranks = range(self.world.size)
            try:
                if batches is None:
                    batches = itertools.islice(iter(self.original), self.skip, None)
                batch = next(batches, _END)
                states = take_states() if fingerprints.of_main_streams() != before else None
                parts = [(False, None, states) if batch is _END else (True, self._cut(batch, rank), states) for rank in ranks]
            except Exception as error:
                yield [(None, f"{type(error).__name__}: {error}", None)] * self.world.size
                raise
            yield parts


class _CutCollate:
    """Collates this process's samples, or all of them and cuts the result; hands the share over with them."""

    def __init__(self, collate_fn: Callable[[list[Any]], Any], world: World, collate: str) -> None:
        self.collate_fn = collate_fn
        self.size, self.rank = world.size, world.rank
        self.collate = collate

    def __call__(self, samples: list[Any]) -> tuple[Share, Any]:
        if self.collate == "local":
            share = Share.of(len(samples), self.size, self.rank)
            return share, self.collate_fn(samples[share.start : share.stop])
        batch = self.collate_fn(samples)
        share = Share.of(len(samples) if self.collate == "global" else _rows_of(batch, len(samples)), self.size, self.rank)
        return share, slice_rows(batch, share.start, share.stop, share.total)


def _without_first(items: Iterator[Any], skip: int, again: Position | None) -> Iterator[Any]:
    """The items from number `skip` on; those of a pass that is gone through again are left out at once."""
    if again is None:
        return itertools.islice(items, skip, None)
    deque(itertools.islice(items, skip + again.batches), maxlen=0)
    return items


def _rows_of(batch: Any, samples: int) -> int:
    """The rows of a batch collated from so many samples: those of its tensors, where all of them have as many."""
    lengths = {leaf.shape[0] for leaf in leaves(batch) if leaf.ndim}
    return lengths.pop() if len(lengths) == 1 else samples


def _later(loader: DataLoader[Any]) -> Later | None:
    """The stream of `loader`, to be begun later: where leaving batches out needs no collating, which draws nothing by default."""
    reads_here = isinstance(loader.dataset, IterableDataset) and loader.num_workers == 0 and loader.batch_size is not None
    return Later(loader.dataset) if reads_here and loader.collate_fn is default_collate else None


def _drawn_at_the_start(loader: DataLoader[Any]) -> bool:
    return type(loader.batch_sampler) is BatchSampler and type(loader.batch_sampler.sampler) in _DRAWS_AT_THE_START


def _refuse_sharded(loader: DataLoader[Any], world: World) -> None:
    samplers = (loader.sampler, getattr(loader.batch_sampler, "sampler", None))
    if world.size > 1 and any(isinstance(sampler, DistributedSampler) for sampler in samplers):
        raise ValueError(
            "This DataLoader has a DistributedSampler, so each process would get a part of its part: "
            "remove the sampler (use shuffle=True), or use split_batches=False and do not prepare the loader."
        )
