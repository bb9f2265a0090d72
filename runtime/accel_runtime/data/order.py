"""The order in which a loader's samplers draw, kept equal on all processes in per-process mode.

* A sampler with a `generator` that was not set receives one of its own, seeded anew for each epoch.
* A generator that the user gave is set to the main process's state when a pass begins.
* Where samplers draw from the global streams, these are the main process's when a pass begins and, if the samplers draw
  on the way, at every draw.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler

from ..collectives import broadcast_object_list
from ..rng import share_streams
from ..world import World
from .in_step import in_step as _in_step
from .samplers import SeedableRandomSampler

_KNOWN_MODULES = ("torch.utils.data.sampler", "torchdata.stateful_dataloader.sampler")


class Order:
    """The random order of one loader."""

    def __init__(self, world: World, loader: DataLoader[Any]):
        self.world = world
        self.parts = samplers(loader)
        self.given: list[torch.Generator] = []
        self.owned: list[torch.Generator] = []
        self.seed = shared_seed(world)
        for part in self.parts:
            self._take_generator(part)
        if loader.generator is not None and not any(loader.generator is g for g in self.given):
            self.given.append(loader.generator)
        self.global_streams = isinstance(loader.dataset, IterableDataset) or not all(map(_is_known, self.parts))

    def begin(self, epoch: int) -> None:
        """Make the streams equal, at the beginning of a pass."""
        self.begin_alone(epoch)
        if self.world.together.size == 1:
            return
        if self.global_streams:
            share_streams(self.world, self.given)
        elif self.given:
            states = broadcast_object_list(self.world.together, [[g.get_state() for g in self.given]])
            for generator, state in zip(self.given, states[0], strict=True):
                generator.set_state(state)

    def begin_alone(self, epoch: int) -> None:
        """Seed the generators made here, without a word to other processes."""
        for generator in self.owned:
            generator.manual_seed(self.seed + epoch)

    def _take_generator(self, part: Any) -> None:
        generator = getattr(part, "generator", None)
        if isinstance(generator, torch.Generator):
            self.given.append(generator)
        elif hasattr(part, "generator") and not isinstance(part, SeedableRandomSampler):
            part.generator = torch.Generator()
            self.owned.append(part.generator)


def samplers(loader: DataLoader[Any]) -> list[Any]:
    """What decides the order of map-style data, outermost first."""
    if isinstance(loader.dataset, IterableDataset):
        return []
    outer = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    found: list[Any] = []
    while outer is not None and all(outer is not part for part in found):
        found.append(outer)
        outer = getattr(outer, "batch_sampler", None) or getattr(outer, "sampler", None)
    return found


def seed_sampler(world: World, loader: DataLoader[Any], data_seed: int | None) -> None:
    """Replace the random sampler of `loader`, if it has one, by one that depends on seed and epoch only."""
    batch_sampler = loader.sampler if isinstance(loader.sampler, BatchSampler) else loader.batch_sampler
    sampler = getattr(batch_sampler, "sampler", None)
    if type(sampler) is not RandomSampler:
        return
    seed = broadcast_object_list(world, [torch.initial_seed() if data_seed is None else data_seed])[0]
    batch_sampler.sampler = SeedableRandomSampler(  # type: ignore[union-attr]
        sampler.data_source, sampler.replacement, sampler._num_samples, sampler.generator, data_seed=seed
    )


def shared_seed(world: World) -> int:
    """A seed that is drawn on every process from its default stream; all receive the main process's."""
    seed = int(torch.empty((), dtype=torch.int64).random_().item())
    return broadcast_object_list(world.together, [seed])[0] % 2**62


def _is_known(part: Any) -> bool:
    """Whether `part` draws from its generator only, or not at all."""
    if type(part) in (BatchSampler, SequentialSampler):
        return True
    return isinstance(part, RandomSampler) or type(part).__module__ in _KNOWN_MODULES


def in_step(items: Iterable[Any], order: Order) -> Iterator[Any]:
    """Yield from `items`; where they draw from the global streams on the way, every process draws from the main one's."""
    return _in_step(items, order.world, order.given) if order.global_streams and order.world.size > 1 else iter(items)
