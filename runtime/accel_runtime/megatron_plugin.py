"""Settings for Megatron-LM, by Accelerate's names: its degrees are those of torch's own tensor parallelism here."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, fields
from typing import Any

from .parallelism_config import ParallelismConfig
from .plugins import FullyShardedDataParallelPlugin

_PREFIX = "MEGATRON_LM_"
_ELSEWHERE = {
    "num_micro_batches": "use gradient_accumulation_steps",
    "gradient_clipping": "call accelerator.clip_grad_norm_ in the script",
    "num_layers_per_virtual_pipeline_stage": "a process has one stage",
    "pipeline_model_parallel_split_rank": "give accelerator.pipeline_stage its cuts",
    "other_megatron_args": "there is no Megatron-LM behind it",
    "megatron_dataset_flag": "loaders are the script's own",
}
"""Field that changes nothing -> what there is instead."""


@dataclass
class MegatronLMPlugin:
    """How many processes compute a model together; fields that are None are read from `MEGATRON_LM_` and their names in capitals.

    Megatron-LM itself is not used: layers are split as `ParallelismConfig(tp_size=...)` splits them, and the script stays as it is.

    Attributes:
        tp_degree: processes that share each layer.
        pp_degree: stages of a pipeline; the script prepares it (`Accelerator.prepare_pipeline`).
        use_distributed_optimizer: shard weights and optimizer states over the groups, instead of copying them.
        sequence_parallelism: share out the tokens between the split layers.
        recompute_activations: compute the blocks' activations again in the backward.
        num_micro_batches, gradient_clipping, num_layers_per_virtual_pipeline_stage,
        pipeline_model_parallel_split_rank, other_megatron_args, megatron_dataset_flag: change nothing; a warning says what to do.

    Raises:
        ValueError: a degree below 1, or both above 1.
    """

    tp_degree: int | None = None
    pp_degree: int | None = None
    num_micro_batches: int | None = None
    gradient_clipping: float | None = None
    sequence_parallelism: bool | None = None
    recompute_activations: bool | None = None
    use_distributed_optimizer: bool | None = None
    pipeline_model_parallel_split_rank: int | None = None
    num_layers_per_virtual_pipeline_stage: int | None = None
    other_megatron_args: dict[str, Any] | None = None
    megatron_dataset_flag: bool = False

    def __post_init__(self) -> None:
        self.tp_degree = _degree("tp_degree", self.tp_degree)
        self.pp_degree = _degree("pp_degree", self.pp_degree)
        if self.pp_degree > 1 and self.tp_degree > 1:
            raise ValueError(f"tp_degree is {self.tp_degree} and pp_degree {self.pp_degree}: pipelines of split layers are not offered; leave one of them out")
        for name in ("sequence_parallelism", "recompute_activations", "use_distributed_optimizer"):
            if getattr(self, name) is None:
                setattr(self, name, os.environ.get(_PREFIX + name.upper(), "false").lower() in ("1", "true", "yes"))
        for name, kind in (("num_micro_batches", int), ("gradient_clipping", float)):
            text = os.environ.get(_PREFIX + name.upper())
            if getattr(self, name) is None and text is not None:
                setattr(self, name, kind(text))
        self._warn()

    def _warn(self) -> None:
        asked = [
            f.name
            for f in fields(self)
            if f.name in _ELSEWHERE and getattr(self, f.name) not in (f.default, False, 1, 1.0)
        ]
        if asked:
            said = "; ".join(f"{name} changes nothing: {_ELSEWHERE[name]}" for name in asked)
            warnings.warn(f"MegatronLMPlugin: {said}", UserWarning, stacklevel=4)

    def parallelism(self, processes: int) -> ParallelismConfig:
        """The sizes for so many processes.

        Raises:
            ValueError: the degree does not divide them.
        """
        assert self.tp_degree is not None
        assert self.pp_degree is not None
        name, together = ("pp_degree", self.pp_degree) if self.pp_degree > 1 else ("tp_degree", self.tp_degree)
        if processes % together:
            raise ValueError(
                f"{name} is {together} and there are {processes} processes: choose a degree that divides their number"
            )
        groups = processes // together
        sharded = bool(self.use_distributed_optimizer)
        return ParallelismConfig(
            dp_replicate_size=1 if sharded else groups,
            dp_shard_size=groups if sharded else 1,
            tp_size=self.tp_degree,
            pp_size=self.pp_degree,
            cp_size=1,
            sp_size=1,
            sequence_parallel=bool(self.sequence_parallelism) and self.tp_degree > 1,
        )

    def sharding(self) -> FullyShardedDataParallelPlugin | None:
        """What the groups are told, where it is not the default."""
        if not self.recompute_activations:
            return None
        return FullyShardedDataParallelPlugin(sharding_strategy="SHARD_GRAD_OP", activation_checkpointing=True)


def default_megatron_plugin() -> MegatronLMPlugin | None:
    """The plugin that the environment asks for with `ACCELERATE_USE_MEGATRON_LM`, if it does."""
    from .world import flag

    return MegatronLMPlugin() if flag("ACCELERATE_USE_MEGATRON_LM") else None


def _degree(field: str, value: int | None) -> int:
    text = str(os.environ.get(_PREFIX + field.upper(), "1") if value is None else value)
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{field} is {text}: it must be an integer from 1 up")
    return int(text)
