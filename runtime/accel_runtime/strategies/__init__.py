"""How a training is spread over processes: one file per strategy, all behind the methods of `base.Strategy`.

A new strategy is a file which subclasses `Strategy`, says in `suits` when it applies, and stands in the list below.
Nobody outside this package names one.
"""

from __future__ import annotations

from ..kwargs import DistributedDataParallelKwargs
from ..world import World
from .base import Strategy
from .ddp import DataParallel

_STRATEGIES: list[type[Strategy]] = [DataParallel, Strategy]

__all__ = ["Strategy", "create"]


def create(world: World, settings: DistributedDataParallelKwargs | None = None) -> Strategy:
    """The first strategy that suits `world`; `settings` is how gradients are reduced."""
    settings = settings or DistributedDataParallelKwargs()
    return next(strategy(world, settings) for strategy in _STRATEGIES if strategy.suits(world))
