"""Context parallel training: several processes share each sequence, with whole weights on every process.

Batches are shared out among the groups; losses of parts are averaged over all processes, and so are gradients.
"""

from __future__ import annotations

from torch import nn

from ..world import World
from . import sequence_models
from .ddp import DataParallel
from .sequences import Sequences
from .settings import Settings


class ContextParallel(DataParallel):
    """Data parallel training in which the processes of a group have different parts of the same sequences."""

    def __init__(self, world: World, settings: Settings) -> None:
        assert settings.parallelism is not None
        settings.parallelism.check(world.size)
        super().__init__(world, settings)
        self.sequences = Sequences(world, settings.parallelism.cp_size)  # type: ignore[arg-type]
        self.data_world, self.loss_world = self.sequences.batches, self.sequences.losses

    @classmethod
    def suits(cls, world: World, settings: Settings) -> bool:
        sizes = settings.parallelism
        if world.size == 1 or sizes is None or not sizes.cp_enabled:
            return False
        return settings.fsdp is None and not sizes.dp_shard_enabled and not sizes.tp_enabled

    def prepare_model(self, model: nn.Module) -> nn.Module:
        sequence_models.join(self.sequences, model)
        return super().prepare_model(model)

    def join(self) -> None:
        return None
