"""Tensor parallel training: several processes compute each layer together, on the same batch.

Weights are split over "tp" processes, and sharded over the others as in `fsdp`. The batch is shared out among the groups, so
in a batch sense each group is one process.
"""

from __future__ import annotations

import torch
from torch import nn

from ..plugins import FullyShardedDataParallelPlugin
from ..world import World
from . import placing, plans, states, units
from .ddp import _broadcast
from .fsdp import FullySharded
from .settings import Settings


class TensorParallel(FullySharded):
    """Layers are split by the plan of `ParallelismConfig`, the model, or their names."""

    def __init__(self, world: World, settings: Settings) -> None:
        assert settings.parallelism is not None
        settings.parallelism.check(world.size)
        super().__init__(world, settings)
        self.layers = self.whole_mesh["tp"]
        self.name = "FSDP" if self.weights_world.size > 1 else ""

    @classmethod
    def suits(cls, world: World, settings: Settings) -> bool:
        return world.size > 1 and settings.parallelism is not None and settings.parallelism.tp_enabled

    def _default_plugin(self) -> FullyShardedDataParallelPlugin:
        return FullyShardedDataParallelPlugin(sharding_strategy="SHARD_GRAD_OP")

    def _split(self, model: nn.Module) -> None:
        """Bring the whole model here, and keep this process's part of its layers."""
        placing.move(model, self.world.device)
        _broadcast(list({id(t): t for _, _, t in units.owners(model)}.values()))
        sizes = self.settings.parallelism
        assert sizes is not None
        with self.replaced.following(model, []):
            plans.split(model, self.layers, plans.choose(model, self.layers, sizes.tp_plan), sizes.sequence_parallel)

    def prepare_model(self, model: nn.Module) -> nn.Module:
        self.refuse_sharded_weights(model)
        self._split(model)
        if self.weights_world.size > 1:
            return self._shard_model(model)
        if self.plugin.activation_checkpointing:
            self.checkpoint_activations(model)
        states.accept_whole_states(model)
        return model

    def prepare_optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        return self._follow(optimizer) if self.weights_world.size == 1 else super().prepare_optimizer(optimizer)
