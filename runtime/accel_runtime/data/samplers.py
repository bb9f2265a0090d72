"""Samplers of per-process mode: which batches of the original batch sampler a process draws, and in which order data is shuffled.

`BatchSamplerShard` has Accelerate's meaning: process r takes batches r, r + N, r + 2N, ...; what is missing in the last
round is repeated from the beginning, so that every process makes as many steps, unless `even_batches=False`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils.data import BatchSampler, RandomSampler


class SeedableRandomSampler(RandomSampler):
    """A random sampler whose order depends on its seed and epoch only, whatever else draws random numbers.

    Args:
        data_seed: the seed; default: the one that torch was seeded with.
    """

    def __init__(self, *args: Any, data_seed: int | None = None, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.initial_seed = torch.initial_seed() if data_seed is None else data_seed
        self.epoch = 0

    def __iter__(self) -> Iterator[int]:
        if self.generator is None:
            self.generator = torch.Generator()
        self.generator.manual_seed(self.epoch + self.initial_seed)
        yield from super().__iter__()
        self.set_epoch(self.epoch + 1)

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the next pass."""
        self.epoch = epoch


class BatchSamplerShard(BatchSampler):
    """The batches of one process.

    Args:
        batch_sampler: gives the batches to share out.
        num_processes: how many processes share them.
        process_index: whose batches these are.
        split_batches: take a part of every batch instead of every `num_processes`-th batch.
        even_batches: complete the last round with samples from the beginning.

    Raises:
        ValueError: `split_batches`, and the batch size is unknown or does not divide.
    """

    def __init__(
        self,
        batch_sampler: Any,
        num_processes: int = 1,
        process_index: int = 0,
        split_batches: bool = False,
        even_batches: bool = True,
    ):
        self.batch_sampler = batch_sampler
        self.num_processes = num_processes
        self.process_index = process_index
        self.split_batches = split_batches
        self.even_batches = even_batches
        self.batch_size: int | None = getattr(batch_sampler, "batch_size", None)  # type: ignore[assignment]
        self.drop_last = getattr(batch_sampler, "drop_last", False)
        if split_batches and (self.batch_size is None or self.batch_size % num_processes):
            raise ValueError(
                f"To use `BatchSamplerShard` in `split_batches` mode, the batch size ({self.batch_size}) "
                f"needs to be a round multiple of the number of processes ({num_processes})."
            )

    @property
    def total_length(self) -> int:
        """Batches of all processes."""
        return len(self.batch_sampler)

    def __len__(self) -> int:
        if self.split_batches:
            return len(self.batch_sampler)
        rounds, more = divmod(len(self.batch_sampler), self.num_processes)
        if not self.drop_last and more and (self.even_batches or self.process_index < more):
            rounds += 1
        return rounds

    def __iter__(self) -> Iterator[Any]:
        return (batch for _, batch in self.counted())

    def counted(self, skip: int = 0) -> Iterator[tuple[int, Any]]:
        """Yield (samples of the round that are no repetitions, or 0 if none is; this process's batch), from round `skip` on."""
        per_round = 1 if self.split_batches else self.num_processes
        if type(self.batch_sampler) is BatchSampler:
            yield from self._in_one_piece(per_round, skip)
            return
        first: list[Any] | None = None
        held: list[Any] | None = None  # a round that is incomplete, unless another follows
        for batches in rounds(self.batch_sampler, per_round, skip):
            if first is None:
                first = batches
                if skip:  # it was only read to complete the last round
                    continue
            if held is not None:
                yield from self._own(held)
                held = None
            if self._is_full(batches, per_round):
                yield from self._own(batches)
            else:
                held = batches
        if held is not None and first is not None and not self.drop_last:
            yield from self._last(held, first) if self.even_batches else self._own(held)

    def _in_one_piece(self, per_round: int, skip: int) -> Iterator[tuple[int, Any]]:
        """Of a plain batch sampler only the last batch can be short, and no batches but this process's need be put together."""
        each = self.batch_size * per_round // self.num_processes  # type: ignore[operator]
        own = slice(each * self.process_index, each * (self.process_index + 1))
        size = each * self.num_processes
        samples = iter(self.batch_sampler.sampler)
        first = list(itertools.islice(samples, size))
        indices = first if skip == 0 else list(itertools.islice(samples, (skip - 1) * size, skip * size))
        while len(indices) == size:
            yield 0, indices[own]
            indices = list(itertools.islice(samples, size))
        if indices and not self.drop_last:
            batches = list(_chunks(indices, self.batch_size))  # type: ignore[arg-type]
            yield from self._last(batches, [first]) if self.even_batches else self._own(batches)

    def _is_full(self, batches: list[Any], per_round: int) -> bool:
        return len(batches) == per_round and (self.batch_size is None or all(len(b) == self.batch_size for b in batches))

    def _own(self, batches: list[Any]) -> Iterator[tuple[int, Any]]:
        if not self.split_batches:
            batch = batches[self.process_index] if self.process_index < len(batches) else []
        else:
            each = self.batch_size // self.num_processes  # type: ignore[operator]
            batch = batches[0][each * self.process_index : each * (self.process_index + 1)]
        if len(batch):
            yield 0, batch

    def _last(self, batches: list[Any], first: list[Any]) -> Iterator[tuple[int, Any]]:
        samples = [sample for batch in batches for sample in batch]
        count = len(samples)
        if self.batch_size is None:
            more = itertools.islice(itertools.cycle(first), self.num_processes - len(batches))
            yield count, [*batches, *more][self.process_index]
            return
        round_size = self.batch_size * (1 if self.split_batches else self.num_processes)
        beginning = itertools.cycle([sample for batch in first for sample in batch])
        samples += itertools.islice(beginning, round_size - count)
        each = round_size // self.num_processes
        yield count, samples[each * self.process_index : each * (self.process_index + 1)]


class SkipBatchSampler(BatchSampler):
    """The batches of `batch_sampler` without the first `skip_batches`; skipped ones are never put together."""

    def __init__(self, batch_sampler: Any, skip_batches: int = 0):
        self.batch_sampler = batch_sampler
        self.skip_batches = skip_batches
        self.batch_size = getattr(batch_sampler, "batch_size", None)
        self.drop_last = getattr(batch_sampler, "drop_last", False)

    @property
    def sampler(self) -> Any:  # type: ignore[override]
        """The sampler behind the batches, so that its epoch can be set."""
        return getattr(self.batch_sampler, "sampler", None)

    @property
    def total_length(self) -> int:
        """Batches with the skipped ones."""
        return len(self.batch_sampler)

    def __iter__(self) -> Iterator[Any]:
        return skip_batches(self.batch_sampler, self.skip_batches)

    def __len__(self) -> int:
        return max(len(self.batch_sampler) - self.skip_batches, 0)

    def set_epoch(self, epoch: int) -> None:
        """Tell the epoch to what is behind."""
        for part in (self.batch_sampler, self.sampler):
            if hasattr(part, "set_epoch"):
                part.set_epoch(epoch)


def skip_batches(batch_sampler: Any, count: int) -> Iterator[Any]:
    """The batches from number `count` on. The samples are drawn as ever, so the random stream is consumed alike."""
    if type(batch_sampler) is not BatchSampler:
        return itertools.islice(iter(batch_sampler), count, None)
    size = batch_sampler.batch_size
    return _batches(itertools.islice(iter(batch_sampler.sampler), count * size, None), size, batch_sampler.drop_last)


def rounds(batch_sampler: Any, per_round: int, skip: int) -> Iterator[list[Any]]:
    """The batches in lists of `per_round`; after the first list, lists 1 to `skip - 1` are left out."""
    for index, batches in enumerate(_chunks(batch_sampler, per_round)):
        if index == 0 or index >= skip:
            yield batches


def _batches(samples: Iterable[Any], size: int, drop_last: bool) -> Iterator[list[Any]]:
    return (batch for batch in _chunks(samples, size) if len(batch) == size or not drop_last)


def _chunks(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    iterator = iter(items)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk
