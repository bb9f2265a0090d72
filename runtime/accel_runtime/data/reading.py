"""What each process reads of a batch where samples are read in the process itself, without workers.

Usually its own samples. A data set that draws random numbers as it is read (augmentation, noise) draws those of one process
only if it is read as one process reads it: then every process reads the whole batch, from the main process's streams, and
collates its own samples. So it is with a `collate_fn` that draws (masked tokens): it collates whole batches, which are cut.
The first batch of each pass is read whole to find out.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import ConcatDataset, DataLoader, Subset, TensorDataset, default_collate

from .. import fingerprints
from ..batches import Share
from ..nested import find_batch_size, slice_rows
from ..rng import put_states, share_streams, take_states
from ..world import World
from .position import Position


class Reading:
    """Chooses the samples that this process reads, and collates its own of them; the `collate_fn` of the loader that reads."""

    def __init__(self, original: DataLoader[Any], world: World) -> None:
        self.world = world
        self.collate_fn = original.collate_fn
        self.dataset = original.dataset
        self.fixed = original.num_workers > 0 or world.size == 1 or (_never_draws(self.dataset) and self.collate_fn is default_collate)
        self.generators: list[torch.Generator] = []
        self.draws = False
        self.collation_draws = False
        self.reads_all = False
        """Whether the batches to come are read whole."""
        self._probing = False
        self._before: Any = None
        self._whole: Share | None = None

    def begin(self, generators: list[torch.Generator], again: Position | None = None) -> None:
        """A pass begins, or goes on where it was interrupted; samplers and data set draw from `generators` besides the global streams."""
        self.generators = generators
        self._whole = None
        self._probing = not self.fixed
        if again is not None and again.reading:
            self.draws, self.collation_draws = again.reading
            self._probing = False
        self._settle()

    def _settle(self) -> None:
        self.reads_all = self._probing or self.draws or self.collation_draws

    @property
    def known(self) -> list[bool]:
        """What this pass has found out, for `Position.reading`; empty before its first batch."""
        return [] if self.fixed or self._probing else [self.draws, self.collation_draws]

    def wanted(self, indices: list[Any], share: Share) -> list[Any]:
        """Which of the samples `indices` of a batch to read; those of `share` are this process's."""
        if not self.reads_all:
            return indices[share.start : share.stop]
        self._whole = share
        if self.draws or self.collation_draws:
            share_streams(self.world, self.generators)
        if self._probing:
            self._before = self._streams()
        return indices

    def __call__(self, samples: list[Any]) -> Any:
        share = self._whole
        if share is None:
            return self.collate_fn(samples)
        self._whole = None
        if self._probing:
            self._probing = False
            self.draws = self._streams() != self._before
            self.collation_draws = self.collate_fn is not default_collate and self._collation_draws(samples)
            self._settle()
        if self.collation_draws:
            return slice_rows(self.collate_fn(samples), share.start, share.stop, share.total)
        return self.collate_fn(samples[share.start : share.stop])

    def _collation_draws(self, samples: list[Any]) -> bool:
        """Whether collating draws, and what it returns can be cut; the streams are as they were."""
        before, states = fingerprints.of_main_streams(), take_states()
        batch = self.collate_fn(samples)
        draws = fingerprints.of_main_streams() != before
        if draws:
            put_states(states)
        return draws and find_batch_size(batch) == len(samples)

    def _streams(self) -> tuple[Any, ...]:
        return (*fingerprints.of_main_streams(), *map(_state_of, _own_generators(self.dataset)))


def _never_draws(dataset: Any) -> bool:
    if type(dataset) is Subset:
        return _never_draws(dataset.dataset)
    if type(dataset) is ConcatDataset:
        return all(map(_never_draws, dataset.datasets))
    return type(dataset) in (TensorDataset, list)


def _own_generators(dataset: Any) -> Iterator[Any]:
    """The generators that `dataset`, or a data set that it wraps, keeps as attributes."""
    numpy = sys.modules.get("numpy")
    kinds = (torch.Generator, random.Random, *((numpy.random.Generator, numpy.random.RandomState) if numpy is not None else ()))
    seen: list[Any] = []
    while dataset is not None and all(dataset is not other for other in seen):
        seen.append(dataset)
        held = getattr(dataset, "__dict__", {})
        yield from (value for value in held.values() if isinstance(value, kinds))
        dataset = held.get("dataset")


def _state_of(generator: Any) -> Any:
    """A comparable state of a generator of torch, Python or NumPy."""
    if isinstance(generator, torch.Generator):
        return generator.get_state().tolist()
    if isinstance(generator, random.Random):
        return generator.getstate()
    return repr(generator.bit_generator.state if hasattr(generator, "bit_generator") else generator.get_state())
