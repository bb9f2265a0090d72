"""The samplers whose order, or choice, is drawn at random: note that one is used, or have them draw the same in every run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from accel_migrate.verify.hooks import state


def draws_its_order(sampler: Any) -> bool:
    """Whether another pass has another order, which nothing but the state of a random stream decides."""
    return isinstance(sampler, tuple(_drawing())) and type(sampler).__name__ != "SeedableRandomSampler"


def note_shuffling() -> None:
    for kind in _drawing():
        kind.__iter__ = _noted(kind.__iter__)


def switch_off_shuffling() -> None:
    """Samples come in the order of the data set; those drawn with weights are the same ones in every pass."""
    from torch.utils.data import DistributedSampler

    for kind, in_order in _drawing().items():
        kind.__iter__ = in_order
    plain = DistributedSampler.__init__

    @functools.wraps(plain)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        plain(self, *args, **kwargs)
        self.shuffle = False

    DistributedSampler.__init__ = init  # type: ignore[method-assign]
    try:
        from accelerate.data_loader import SeedableRandomSampler
    except ImportError:
        return
    SeedableRandomSampler.__iter__ = _in_order


def _drawing() -> dict[Any, Callable[[Any], Iterator[int]]]:
    """Each such sampler, and what to iterate over instead."""
    from torch.utils.data import RandomSampler, SubsetRandomSampler, WeightedRandomSampler

    return {RandomSampler: _in_order, SubsetRandomSampler: lambda self: iter(self.indices), WeightedRandomSampler: _with_weights}


def _in_order(self: Any) -> Iterator[int]:
    size = len(self.data_source)
    return iter([i % size for i in range(self.num_samples)])


def _with_weights(self: Any) -> Iterator[int]:
    import torch

    generator = torch.Generator().manual_seed(0)
    return iter(torch.multinomial(self.weights, self.num_samples, self.replacement, generator=generator).tolist())


def _noted(plain: Callable[[Any], Iterator[int]]) -> Callable[[Any], Iterator[int]]:
    def noted(self: Any) -> Iterator[int]:
        state.note_use("shuffle")
        return plain(self)

    return noted
