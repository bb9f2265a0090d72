"""Streams in per-process mode: every process reads the stream and keeps its part of each round of samples.

`IterableDatasetShard` has Accelerate's meaning. A round is as many samples as all processes train on in one step; the
last one is completed with samples from the first. How many samples of a round are no repetitions travels with the
samples, since the stream may run in a worker, and each worker has a last round of its own.
"""

from __future__ import annotations

import math
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
        self._seed()
        each = (self.batch_size or 1) // (self.num_processes if self.split_batches else 1)
        own = slice(self.process_index * each, (self.process_index + 1) * each)
        size = each * self.num_processes
        first: list[Any] = []
        current: list[Any] = []
        index = 0
        for sample in self.dataset:
            current.append(sample)
            if len(current) == size:
                first = first or current
                if index >= skip:
                    yield from ((0, mine) for mine in current[own])
                current = []
                index += 1
        if current and not self.drop_last and index >= skip:
            real = self._count(current)
            first = first or list(current)
            while len(current) < size:
                current += first
            yield from ((real, mine) for mine in current[own])

    def _count(self, samples: list[Any]) -> int:
        return len(samples) if self.batch_size is not None else sum(find_batch_size(batch) or 1 for batch in samples)

    def _seed(self) -> None:
        generator = getattr(self.dataset, "generator", None)
        if isinstance(generator, torch.Generator) and not hasattr(self.dataset, "set_epoch"):
            generator.manual_seed(self.epoch)


class CountedStream(IterableDataset[Any]):
    """A shard whose samples carry the count of their round, for `CountedCollate`; begins with round `skip`."""

    def __init__(self, shard: IterableDatasetShard):
        self.shard = shard
        self.skip = 0

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        return self.shard.counted(self.skip)

    def __len__(self) -> int:
        return len(self.shard)


class CountedCollate:
    """Collates counted samples to (count, batch); without batching to (count, converted sample)."""

    def __init__(self, collate_fn: Callable[[Any], Any], batched: bool):
        self.collate_fn = collate_fn
        self.batched = batched

    def __call__(self, samples: Any) -> tuple[int, Any]:
        if not self.batched:
            return samples[0], self.collate_fn(samples[1])
        return samples[0][0], self.collate_fn([sample for _, sample in samples])
