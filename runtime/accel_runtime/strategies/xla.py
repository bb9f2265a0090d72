"""Training on TPUs: torch_xla's partitioner spreads the program of one process over all devices of its machine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from .. import xla
from ..world import World
from . import unbiased
from .base import Strategy
from .settings import Settings


class Partitioned(Strategy):
    """Whole weights on every device, or with `fsdp_plugin` a part of each; batches are cut by the loaders."""

    name = "XLA"

    def __init__(self, world: World, settings: Settings) -> None:
        sizes = settings.parallelism
        if settings.deepspeed is not None or (sizes is not None and (sizes.tp_enabled or sizes.cp_enabled)):
            raise ValueError("on TPUs weights are whole, or sharded by fsdp_plugin: leave out deepspeed_plugin, tp_size and cp_size")
        if settings.precision in ("fp16", "fp8"):
            raise ValueError(f"mixed_precision is {settings.precision!r}, which TPUs do not have: use 'bf16' or 'no'")
        super().__init__(world, settings)
        self.shards = settings.fsdp is not None or (sizes is not None and sizes.dp_shard_enabled)

    @classmethod
    def suits(cls, world: World, settings: Settings) -> bool:
        return world.device.type == "xla"

    def place(self, model: nn.Module, device: torch.device) -> nn.Module:
        """Bring the weights to the devices; the parameters stay the very objects that optimizers hold."""
        if any(tensor.is_meta for tensor in _tensors(model)):
            return super().place(model, device)
        for tensor in _tensors(model):
            if tensor.device != device:
                moved = tensor.detach().to(device)
                torch.utils.swap_tensors(tensor, nn.Parameter(moved, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else moved)
        return model

    def prepare_model(self, model: nn.Module) -> nn.Module:
        unbiased.correct(model)
        if self.shards:
            for parameter in model.parameters():
                xla.cut(parameter)
        return model

    def prepare_optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        optimizer.register_step_post_hook(_finish)
        return optimizer


def _tensors(model: nn.Module) -> Iterable[torch.Tensor]:
    return {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}.values()


def _finish(*unused: Any) -> None:
    xla.finish()
