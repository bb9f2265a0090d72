"""How a training is spread over processes: one file per strategy, all behind the methods of `base.Strategy`.

A new strategy is a file in this folder which subclasses `Strategy` and says in `suits` when it applies; nothing else is
edited. Nobody outside this package names one.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from ..world import World
from .base import Strategy
from .settings import Settings

__all__ = ["Settings", "Strategy", "create"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def create(world: World, settings: Settings | None = None) -> Strategy:
    """The strategy that suits `world` and `settings`: one that refines another goes before it."""
    settings = settings or Settings()
    chosen = next(strategy for strategy in _refined_first(Strategy) if strategy.suits(world, settings))
    return chosen(world, settings)


def _refined_first(strategy: type[Strategy]) -> Iterator[type[Strategy]]:
    for refined in strategy.__subclasses__():
        yield from _refined_first(refined)
    yield strategy
