"""What a strategy is told."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from ..kwargs import DistributedDataParallelKwargs
from ..parallelism import ParallelismConfig
from ..plugins import FullyShardedDataParallelPlugin


@dataclass(frozen=True)
class Settings:
    """What the user chose.

    Attributes:
        gradients: how gradients are reduced.
        fsdp: how models are sharded; None: not.
        parallelism: how many processes share what; None: all share out batches.
        low_precision: the type in which whole models compute (mixed precision in per-process mode); None: their own.
    """

    gradients: DistributedDataParallelKwargs = field(default_factory=DistributedDataParallelKwargs)
    fsdp: FullyShardedDataParallelPlugin | None = None
    parallelism: ParallelismConfig | None = None
    low_precision: torch.dtype | None = None
