"""Loops with unequal numbers of batches, and models that meet only now and then: methods of `Accelerator`."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from . import collectives
from .preparing import Preparing
from .state import DistributedType


class Joining(Preparing):
    """What `Accelerator` does where processes do not step together."""

    @contextmanager
    def join_uneven_inputs(self, joinables: list[Any], even_batches: bool | None = None) -> Iterator[None]:
        """Inside, processes may have unequal numbers of batches (`even_batches=False`): those that are through wait for the others.

        Each backward averages over all processes, those without a batch counting as zero. Afterwards all have the weights and
        optimizer states of the process with the most batches. Inside, only backwards may communicate. In exact mode batches are
        never uneven, and nothing happens.

        Args:
            joinables: the prepared models, as in Accelerate; all that are prepared take part.
            even_batches: inside, another value of this setting for the prepared map-style loaders.
        """
        if self.exact or self.data_world.size == 1:
            yield
            return
        joined = self.strategy.join() if self.distributed_type is DistributedType.of(self.world) else None
        if joined is None:
            warnings.warn(
                f"join_uneven_inputs is only supported for multi-GPU and multi-CPU training with whole models; under {self.distributed_type.value} it does nothing",
                UserWarning,
                stacklevel=3,
            )
            joined = contextlib.nullcontext()
        with self._even_batches(even_batches), joined as turns:
            yield
        if turns is not None and turns.furthest is not None:
            self._follow(turns.furthest)

    @contextmanager
    def _even_batches(self, value: bool | None) -> Iterator[None]:
        samplers = [getattr(loader, "batch_sampler", None) for loader in self._dataloaders] if value is not None else []
        known = [sampler for sampler in samplers if hasattr(sampler, "even_batches")]
        if len(known) < len(samplers):
            warnings.warn(
                "even_batches is only supported for map-style datasets; iterable loaders stay as they are",
                UserWarning,
                stacklevel=4,
            )
        before = [sampler.even_batches for sampler in known]
        for sampler in known:
            sampler.even_batches = value
        try:
            yield
        finally:
            for sampler, old in zip(known, before, strict=True):
                sampler.even_batches = old

    def _follow(self, rank: int) -> None:
        """Take over buffers and optimizer states of process `rank`."""
        for model in self._models:
            collectives.broadcast(self.data_world, list(model.buffers()), rank)
        for optimizer, _ in self._optimizers.values():
            state = collectives.broadcast_object_list(self.data_world, [optimizer.state_dict()], rank)[0]
            if self.data_world.rank != rank:
                optimizer.load_state_dict(state)
