"""Local SGD: processes train by themselves and average their weights now and then."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .accelerator import Accelerator
from .collectives import all_reduce


class LocalSGD:
    """Inside the block gradients stay local; every `local_sgd_steps` calls of `step`, and at the end, weights are averaged.

    Args:
        accelerator: with which everything was prepared.
        model: the prepared model.
        local_sgd_steps: optimizer steps between two averages.
        enabled: False trains as ever.

    Raises:
        ValueError: models are spread over the processes, so that none can train alone.
    """

    def __init__(self, accelerator: Accelerator, model: nn.Module, local_sgd_steps: int, enabled: bool = True) -> None:
        if local_sgd_steps < 1:
            raise ValueError(f"local_sgd_steps is {local_sgd_steps}: it must be an integer from 1 up")
        self.enabled = enabled and accelerator.num_processes > 1
        if self.enabled and accelerator.strategy.name:
            raise ValueError(f"LocalSGD needs whole models on all processes, and they are spread out ({accelerator.strategy.name}): train data parallel")
        self.accelerator = accelerator
        self.model = model
        self.local_sgd_steps = local_sgd_steps
        self.num_steps = 0
        self._local: Any = None

    def __enter__(self) -> LocalSGD:
        if self.enabled:
            self._local = self.accelerator.no_sync(self.model)
            self._local.__enter__()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self.enabled:
            self._local.__exit__(kind, error, trace)
            if kind is None:
                self._average()

    def step(self) -> None:
        """Call it after the optimizer's step; counts where a window of accumulation ends."""
        if not self.accelerator.sync_gradients:
            return
        self.num_steps += 1
        if self.enabled and self.num_steps % self.local_sgd_steps == 0:
            self._average()

    @torch.no_grad()
    def _average(self) -> None:
        world = self.accelerator.loss_world
        for parameter in self.model.parameters():
            if parameter.is_floating_point():
                parameter.copy_(all_reduce(world, parameter.detach().clone()) / world.size)
