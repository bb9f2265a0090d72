"""What a strategy is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from ..deepspeed_plugin import DeepSpeedPlugin
from ..kwargs import DistributedDataParallelKwargs
from ..parallelism_config import ParallelismConfig
from ..plugins import FullyShardedDataParallelPlugin


@dataclass(frozen=True)
class Settings:
    """What the user chose.

    Attributes:
        gradients: how gradients are reduced.
        fsdp: how models are sharded; None: not.
        parallelism: how many processes share what; None: all share out batches.
        low_precision: the type in which whole models compute (mixed precision in per-process mode); None: their own.
        deepspeed: what DeepSpeed is told; None: it is not used.
        selected: gives the one of several DeepSpeed plugins that is in use.
        precision: the mixed precision, by its name.
        exact: whether the global batch is what the script says.
        steps: gives the micro-batches per optimizer step.
        micro_batch: gives the samples of a batch that one process gets, as far as loaders have been prepared.
    """

    gradients: DistributedDataParallelKwargs = field(default_factory=DistributedDataParallelKwargs)
    fsdp: FullyShardedDataParallelPlugin | None = None
    parallelism: ParallelismConfig | None = None
    low_precision: torch.dtype | None = None
    deepspeed: DeepSpeedPlugin | None = None
    selected: Callable[[], DeepSpeedPlugin | None] = lambda: None
    precision: str = "no"
    exact: bool = False
    steps: Callable[[], int] = lambda: 1
    micro_batch: Callable[[], int] = lambda: 1

    @property
    def zero(self) -> bool:
        """Whether DeepSpeed shards something."""
        return self.deepspeed is not None and self.deepspeed.zero_stage != 0
