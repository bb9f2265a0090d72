"""How a training is spread over processes: one file per strategy, all behind the methods of `base.Strategy`.

A new strategy is a file in this folder which subclasses `Strategy` and says in `suits` when it applies; nothing else is
edited. Nobody outside this package names one.
"""

from __future__ import annotations

import importlib
import pkgutil

from ..kwargs import DistributedDataParallelKwargs
from ..world import World
from .base import Strategy

__all__ = ["Strategy", "create"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def create(world: World, settings: DistributedDataParallelKwargs | None = None) -> Strategy:
    """The strategy that suits `world`, else that of one process; `settings` is how gradients are reduced."""
    settings = settings or DistributedDataParallelKwargs()
    chosen = next((strategy for strategy in Strategy.__subclasses__() if strategy.suits(world)), Strategy)
    return chosen(world, settings)
