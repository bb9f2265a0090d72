"""Streams in per-process mode: every process reads the stream and keeps its part of each round of samples.

`IterableDatasetShard` has Accelerate's meaning. A round is as many samples as all processes train on in one step; the
last one is completed with samples from the first. How many samples of a round are no repetitions travels with the
samples, since the stream may run in a worker, and each worker has a last round of its own.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import IterableDataset

from ..nested import find_batch_size


class IterableDatasetShard(IterableDataset[Any]):
    """The samples of one process.

    Args:
        dataset: the stream.
        batch_size: samples per batch of one process; with `split_batches` of all together. None: each element of the
            stream is a batch.
        drop_last: leave an incomplete last round out instead of completing it.
        num_processes: how many processes share the stream.
        process_index: whose samples these are.
        split_batches: see `batch_size`.

    Raises:
        ValueError: `split_batches`, and the batch size does not divide.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        drop_last: bool = False,
        num_processes: int = 1,
        process_index: int = 0,
        split_batches: bool = False,
    ):
        if split_batches and batch_size is not None and batch_size > 1 and batch_size % num_processes:
            raise ValueError(
                f"To use `IterableDatasetShard` in `split_batches` mode, the batch size ({batch_size}) "
                f"needs to be a round multiple of the number of processes ({num_processes})."
            )
        self.dataset = dataset
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.num_processes = num_processes
        self.process_index = process_index
        self.split_batches = split_batches
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Tell the stream its epoch."""
        self.epoch = epoch
        if hasattr(self.dataset, "set_epoch"):
            self.dataset.set_epoch(epoch)

    def __len__(self) -> int:
        each = self.batch_size or 1
        rounds = len(self.dataset) / (each * self.num_processes)
        return (math.floor(rounds) if self.drop_last else math.ceil(rounds)) * each

    def __iter__(self) -> Iterator[Any]:
        return (sample for _, sample in self.counted())

    def counted(self, skip: int = 0) -> Iterator[tuple[int, Any]]:
        """Yield (samples of the round that are no repetitions, or 0 if none is; sample), from round `skip` on."""
        return ((real, mine) for real, samples in self.rounds(skip) for mine in samples)

    def rounds(self, skip: int = 0) -> Iterator[tuple[int, list[Any]]]:
        """The same with all of this process's samples of a round together."""
        self._seed()
        each = (self.batch_size or 1) // (self.num_processes if self.split_batches else 1)
        own = slice(self.process_index * each, (self.process_index + 1) * each)
        size = each * self.num_processes
        samples = iter(self.dataset)
        first: list[Any] = []
        for index in itertools.count():
            current = list(itertools.islice(samples, size))
            first = first or current
            if len(current) < size:
                break
            if index >= skip:
                yield 0, current[own]
        if current and not self.drop_last and index >= skip:
            real = self._count(current)
            completed = [*current, *itertools.islice(itertools.cycle(first), size - len(current))]
            yield real, completed[own]

    def _count(self, samples: list[Any]) -> int:
        return len(samples) if self.batch_size is not None else sum(find_batch_size(batch) or 1 for batch in samples)

    def _seed(self) -> None:
        generator = getattr(self.dataset, "generator", None)
        if isinstance(generator, torch.Generator) and not hasattr(self.dataset, "set_epoch"):
            generator.manual_seed(self.epoch)


class Later(IterableDataset[Any]):
    """A stream without its first samples.

    Attributes:
        samples: how many of the next pass are left out.
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self.samples = 0
        self._items: Iterator[Any] = iter(())

    def __iter__(self) -> Iterator[Any]:
        self._items = iter(self.dataset)
        return self._read()

    def pass_over(self) -> None:
        """Leave them out now."""
        deque(itertools.islice(self._items, self.samples), maxlen=0)
        self.samples = 0

    def _read(self) -> Iterator[Any]:
        self.pass_over()
        yield from self._items


class CountedStream(IterableDataset[Any]):
    """A shard whose elements are all samples of a round, with its count, for `CountedCollate`; begins with round `skip`."""

    def __init__(self, shard: IterableDatasetShard):
        self.shard = shard
        self.skip = 0

    def __iter__(self) -> Iterator[tuple[int, list[Any]]]:
        return self.shard.rounds(self.skip)

    def __len__(self) -> int:
        return math.ceil(len(self.shard) / (self.shard.batch_size or 1))


class CountedCollate:
    """Collates the samples of a round to (count, batch); without batching there is one, to (count, converted sample)."""

    def __init__(self, collate_fn: Callable[[Any], Any], batched: bool):
        self.collate_fn = collate_fn
        self.batched = batched

    def __call__(self, counted: tuple[int, list[Any]]) -> tuple[int, Any]:
        count, samples = counted
        return count, self.collate_fn(samples if self.batched else samples[0])
