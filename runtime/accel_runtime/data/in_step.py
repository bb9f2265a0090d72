"""Streams of random numbers from which all processes draw alike while they iterate over a loader."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader

from .. import fingerprints
from ..rng import share_streams
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
    """Yield from `items`; where they draw from a stream on the way, every process draws from the main process's.

    What the first item draws may be an order for the whole pass: whether items go on drawing is what the second shows.
    """
    iterator = iter(items)
    several = world.together.size > 1
    draws = False
    for count in itertools.count():
        if draws:
            share_streams(world, list(generators))
        watched = several and (count < 2 or not draws)
        before = fingerprints.of_main_streams() if watched else None
        try:
            item = next(iterator)
        except StopIteration:
            return
        if watched:
            draws = before != fingerprints.of_main_streams()
        yield item
