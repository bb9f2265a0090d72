"""Settings of the ways to train that spread one model over several processes, by Accelerate's names.

Fields that are None are read from the environment variables which `accel launch` sets, named in each class.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

SHARDING_STRATEGIES = ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2")
WRAP_POLICIES = ("TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP")
STATE_DICT_TYPES = ("FULL_STATE_DICT", "SHARDED_STATE_DICT")


@dataclass
class FullyShardedDataParallelPlugin:
    """Fully sharded data parallelism (`torch.distributed.fsdp.fully_shard`), in place.

    Environment: `FSDP_` and the field's name in capitals; `FSDP_OFFLOAD_PARAMS` is `cpu_offload` and
    `FSDP_TRANSFORMER_CLS_TO_WRAP` is `transformer_cls_names_to_wrap`.

    Attributes:
        fsdp_version: understood; both versions' settings choose `fully_shard`.
        sharding_strategy: "FULL_SHARD"; "SHARD_GRAD_OP" keeps the weights whole between forward and backward;
            "HYBRID_SHARD" and "HYBRID_SHARD_ZERO2" shard inside each machine and replicate between machines;
            "NO_SHARD" replicates. Torch's enumeration or its numbers do, too.
        reshard_after_forward: False is "SHARD_GRAD_OP", True "FULL_SHARD"; the names above do, too.
        mixed_precision_policy: a torch `MixedPrecisionPolicy`, a dict of its fields, or "bf16", "fp16", "fp32". None: in
            per-process mode that of `mixed_precision`; in exact mode only `accelerator.autocast()` lowers the precision.
        auto_wrap_policy: which modules are gathered together: "transformer_based_wrap", "size_based_wrap", "no_wrap", or a
            callable with torch's signature `policy(module, recurse, nonwrapped_numel)`. None: the model's own
            `_no_split_modules`, else the blocks that repeat in it.
        cpu_offload: keep weights, gradients and optimizer states in the host's memory.
        ignored_modules: modules that are replicated instead; a string is matched against their names as a pattern.
        state_dict_type: "FULL_STATE_DICT" or "SHARDED_STATE_DICT": what checkpoints hold.
        param_init_fn: initialises the own parameters of a module whose weights are on the meta device on all processes; None: its
            `reset_parameters`.
        activation_checkpointing: compute the blocks' activations again in the backward instead of keeping them.
        cpu_ram_efficient_loading: tell Transformers to load weights on the main process only.
        transformer_cls_names_to_wrap: class names for "transformer_based_wrap"; as a string with commas between them.
        min_num_params: for "size_based_wrap".
        backward_prefetch: understood; the next weights are always gathered ahead of the backward.
        forward_prefetch: understood; changes nothing.
        limit_all_gathers: understood; changes nothing.
        use_orig_params: understood; parameters keep their names and shapes.
        sync_module_states: understood; the main process's weights are always everyone's.

    Raises:
        ValueError: a value that is not among those above.
    """

    fsdp_version: int | None = None
    sharding_strategy: Any = None
    reshard_after_forward: Any = None
    backward_prefetch: Any = None
    mixed_precision_policy: Any = None
    auto_wrap_policy: str | Callable[..., bool] | None = None
    cpu_offload: Any = None
    ignored_modules: Iterable[Any] | str | None = None
    state_dict_type: Any = None
    limit_all_gathers: bool = True
    use_orig_params: bool | None = None
    param_init_fn: Callable[[Any], None] | None = None
    sync_module_states: bool | None = None
    forward_prefetch: bool | None = None
    activation_checkpointing: bool | None = None
    cpu_ram_efficient_loading: bool | None = None
    transformer_cls_names_to_wrap: list[str] | str | None = None
    min_num_params: int | None = None

    def __post_init__(self) -> None:
        self.fsdp_version = _integer("fsdp_version", self.fsdp_version, "FSDP_VERSION", 2)
        self._read_sharding()
        self.cpu_offload = _flag(self.cpu_offload, "FSDP_OFFLOAD_PARAMS")
        self.activation_checkpointing = _flag(self.activation_checkpointing, "FSDP_ACTIVATION_CHECKPOINTING")
        if _flag(None, "FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD"):
            raise ValueError("fsdp_activation_checkpointing_offload: activations stay on the device; use fsdp_activation_checkpointing alone")
        self.ignored_modules = _or_environment(self.ignored_modules, "FSDP_IGNORED_MODULES")
        self._read_wrapping()
        kind = _name(
            _or_environment(self.state_dict_type, "FSDP_STATE_DICT_TYPE") or "SHARDED_STATE_DICT",
            ("", *STATE_DICT_TYPES),
        )
        self.state_dict_type = _among("state_dict_type", kind, STATE_DICT_TYPES)
        if self.cpu_ram_efficient_loading is not None:  # Transformers reads it there
            os.environ["FSDP_CPU_RAM_EFFICIENT_LOADING"] = str(self.cpu_ram_efficient_loading)
        self.cpu_ram_efficient_loading = _flag(self.cpu_ram_efficient_loading, "FSDP_CPU_RAM_EFFICIENT_LOADING")

    def _read_sharding(self) -> None:
        reshard = self.reshard_after_forward
        if reshard is None and self.sharding_strategy is None:
            reshard = _or_environment(None, "FSDP_RESHARD_AFTER_FORWARD")
        if isinstance(reshard, str) and reshard.lower() in ("true", "false"):
            reshard = reshard.lower() == "true"
        asked = _or_environment(self.sharding_strategy, "FSDP_SHARDING_STRATEGY") or "FULL_SHARD"
        if not isinstance(reshard, (bool, type(None))):
            asked = reshard
        strategy = _among("sharding_strategy", _name(asked, ("", *SHARDING_STRATEGIES)), SHARDING_STRATEGIES)
        if isinstance(reshard, bool):
            kept = {"FULL_SHARD": "SHARD_GRAD_OP", "HYBRID_SHARD": "HYBRID_SHARD_ZERO2"}
            strategy = ({v: k for k, v in kept.items()} if reshard else kept).get(strategy, strategy)
        self.sharding_strategy = strategy
        self.reshard_after_forward = strategy not in ("SHARD_GRAD_OP", "HYBRID_SHARD_ZERO2")

    def _read_wrapping(self) -> None:
        policy = _or_environment(self.auto_wrap_policy, "FSDP_AUTO_WRAP_POLICY")
        if isinstance(policy, str):
            policy = _among("auto_wrap_policy", policy.upper(), WRAP_POLICIES).lower()
        self.auto_wrap_policy = policy
        names = _or_environment(self.transformer_cls_names_to_wrap, "FSDP_TRANSFORMER_CLS_TO_WRAP")
        self.transformer_cls_names_to_wrap = (
            [n.strip() for n in names.split(",") if n.strip()] if isinstance(names, str) else names
        )
        self.min_num_params = _integer("min_num_params", self.min_num_params, "FSDP_MIN_NUM_PARAMS", 0)

    @property
    def hybrid(self) -> bool:
        """Whether weights are sharded inside each machine and replicated between machines."""
        return self.sharding_strategy.startswith("HYBRID")


def default_fsdp_plugin() -> FullyShardedDataParallelPlugin | None:
    """The plugin that the environment asks for with `ACCELERATE_USE_FSDP`, if it does."""
    from .world import flag

    return FullyShardedDataParallelPlugin() if flag("ACCELERATE_USE_FSDP") else None


def _or_environment(value: Any, variable: str) -> Any:
    return os.environ.get(variable) or None if value is None else value


def _flag(value: Any, variable: str) -> bool:
    from .world import flag

    return flag(variable) if value is None else bool(value)


def _integer(field: str, value: Any, variable: str, default: int) -> int:
    text = _or_environment(value, variable)
    if text is None:
        return default
    if not str(text).isdecimal():
        raise ValueError(f"{field} is {text!r}: it must be an integer from 0 up")
    return int(text)


def _name(value: Any, numbered: tuple[str, ...]) -> str:
    """The name of a member of an enumeration, given as such, by its number, or by its name."""
    text = str(getattr(value, "name", value)).upper()
    return numbered[int(text)] if text.isdecimal() and 0 < int(text) < len(numbered) else text


def _among(field: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise ValueError(f"{field} is {value!r}: it must be one of {', '.join(map(repr, allowed))}")
    return value
