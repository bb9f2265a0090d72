"""Choices that Accelerate spells as enumerations, and its settings under their module's name."""

from __future__ import annotations

from enum import Enum, EnumMeta
from typing import Any

from ..fp8_kwargs import AORecipeKwargs, FP8RecipeKwargs, MSAMPRecipeKwargs, TERecipeKwargs
from ..kwargs import (
    AutocastKwargs,
    DataLoaderConfiguration,
    DistributedDataParallelKwargs,
    GradientAccumulationPlugin,
    GradScalerKwargs,
    InitProcessGroupKwargs,
    KwargsHandler,
    ProfileKwargs,
    ProjectConfiguration,
)
from ..plugins import FullyShardedDataParallelPlugin
from ..state import DistributedType

__all__ = [
    "AORecipeKwargs",
    "AutocastKwargs",
    "ComputeEnvironment",
    "DDPCommunicationHookType",
    "DataLoaderConfiguration",
    "DistributedDataParallelKwargs",
    "DistributedType",
    "FP8RecipeKwargs",
    "FullyShardedDataParallelPlugin",
    "GradScalerKwargs",
    "GradientAccumulationPlugin",
    "InitProcessGroupKwargs",
    "KwargsHandler",
    "LoggerType",
    "MSAMPRecipeKwargs",
    "PrecisionType",
    "ProfileKwargs",
    "ProjectConfiguration",
    "RNGType",
    "TERecipeKwargs",
]


class _Contains(EnumMeta):
    def __contains__(cls, item: Any) -> bool:
        return any(item == member or item == member.value for member in cls)


class _Choice(str, Enum, metaclass=_Contains):
    def __str__(self) -> str:
        return str(self.value)

    @classmethod
    def list(cls) -> list[str]:
        """All values."""
        return [member.value for member in cls]


class ComputeEnvironment(_Choice):
    """Where a script runs."""

    LOCAL_MACHINE = "LOCAL_MACHINE"


class DDPCommunicationHookType(_Choice):
    """How gradients are compressed on the way."""

    NO = "no"
    FP16 = "fp16"
    BF16 = "bf16"
    POWER_SGD = "power_sgd"
    BATCHED_POWER_SGD = "batched_power_sgd"


class LoggerType(_Choice):
    """Trackers that have a name."""

    ALL = "all"
    TENSORBOARD = "tensorboard"
    WANDB = "wandb"
    JSONL = "jsonl"
    CSV = "csv"


class PrecisionType(_Choice):
    """Precisions of the forward pass."""

    NO = "no"
    FP16 = "fp16"
    BF16 = "bf16"
    FP8 = "fp8"


class RNGType(_Choice):
    """Random streams."""

    TORCH = "torch"
    CUDA = "cuda"
    GENERATOR = "generator"
