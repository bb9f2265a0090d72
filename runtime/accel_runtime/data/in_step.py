"""Streams of random numbers from which all processes draw alike while they iterate over a loader."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader

from ..rng import read_main_streams, share_streams
from ..world import World


def share_streams_of(loader: DataLoader[Any], world: World) -> list[torch.Generator]:
    """Make the streams equal from which `loader` draws its order; its own generators."""
    owners = (loader, loader.sampler, loader.batch_sampler, getattr(loader.batch_sampler, "sampler", None))
    found = (getattr(owner, "generator", None) for owner in owners)
    generators = list({id(g): g for g in found if isinstance(g, torch.Generator)}.values())
    if world.together.size > 1:
        share_streams(world, generators)
    return generators


def in_step(items: Iterable[Any], world: World, generators: Iterable[torch.Generator]) -> Iterator[Any]:
    """Yield from `items`; where they draw from a stream on the way, every process draws from the main process's."""
    iterator = iter(items)
    draws = False
    for count in itertools.count():
        if draws:
            share_streams(world, list(generators))
        before = read_main_streams() if count and not draws and world.together.size > 1 else None
        try:
            item = next(iterator)
        except StopIteration:
            return
        draws = draws or (before is not None and before != read_main_streams())
        yield item
