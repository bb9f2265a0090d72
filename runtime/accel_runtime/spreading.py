"""Which way a model is to be spread over processes: what `Accelerator` was given, and what the environment asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .deepspeed_plugin import DeepSpeedPlugin, understood
from .megatron_plugin import MegatronLMPlugin, default_megatron_plugin
from .parallelism_config import ParallelismConfig, default_parallelism
from .plugins import FullyShardedDataParallelPlugin, default_fsdp_plugin


@dataclass(frozen=True)
class Spreading:
    """The settings of all ways; None for those that are not asked for."""

    deepspeed: DeepSpeedPlugin | None
    fsdp: FullyShardedDataParallelPlugin | None
    megatron: MegatronLMPlugin | None
    parallelism: ParallelismConfig | None


def spreading(
    processes: int,
    deepspeed: Any = None,
    fsdp: FullyShardedDataParallelPlugin | None = None,
    megatron: MegatronLMPlugin | None = None,
    parallelism: ParallelismConfig | None = None,
) -> Spreading:
    """What is asked for on so many processes.

    Raises:
        ImportError: DeepSpeed is asked for and not installed.
        ValueError: ways that exclude each other.
    """
    deepspeed = understood(deepspeed)
    fsdp = fsdp or default_fsdp_plugin()
    megatron = megatron or default_megatron_plugin()
    parallelism = parallelism or default_parallelism()
    if megatron is not None:
        if parallelism is not None:
            raise ValueError(
                "megatron_lm_plugin and parallelism_config are both given: the sizes of the second say what the degrees of the first do"
            )
        parallelism = megatron.parallelism(processes) if processes > 1 else None
        fsdp = fsdp or megatron.sharding()
    asked = [name for name, way in (("fsdp_plugin", fsdp), ("parallelism_config", parallelism)) if way is not None]
    if deepspeed is not None and asked:
        raise ValueError(
            f"deepspeed_plugin and {asked[0]} are both given: DeepSpeed shards by itself; give one of them"
        )
    if fsdp is not None and parallelism is not None and parallelism.pp_enabled:
        raise ValueError("pp_size and an fsdp_plugin are both given: the stages of a pipeline are not sharded; leave one of them out")
    return Spreading(deepspeed, fsdp, megatron, parallelism)
