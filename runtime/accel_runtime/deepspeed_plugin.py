"""Settings of DeepSpeed's ZeRO, by Accelerate's names, and its configuration with every "auto" filled in."""

from __future__ import annotations

import copy
import importlib.util
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PREFIX = "ACCELERATE_DEEPSPEED_"
_STAGES = ("0", "1", "2", "3")
_DEVICES = ("none", "cpu", "nvme")
_OWN_OPTIMIZER = ("optimizer", "scheduler")


@dataclass
class DeepSpeedPlugin:
    """ZeRO: optimizer states, gradients and weights sharded over the processes by DeepSpeed.

    Fields that are None are read from `ACCELERATE_DEEPSPEED_` and their names in capitals (`ACCELERATE_DEEPSPEED_CONFIG_FILE`,
    `ACCELERATE_GRADIENT_CLIPPING`, `ACCELERATE_DEEPSPEED_ZERO3_INIT`).

    Attributes:
        hf_ds_config: DeepSpeed's own configuration, a dict or the path of a JSON file, in which values may be "auto"; it goes
            before the fields below.
        gradient_accumulation_steps: micro-batches per optimizer step; "auto" or None: what `Accelerator` was told.
        gradient_clipping: largest norm of the gradient; `clip_grad_norm_` in the script goes before it.
        zero_stage: 1 shards optimizer states, 2 gradients too, 3 weights too; 0 is plain data parallelism. Default 2.
        offload_optimizer_device, offload_param_device: "none", "cpu" or "nvme".
        offload_optimizer_nvme_path, offload_param_nvme_path: folders on NVMe.
        zero3_init_flag: tell Transformers to make models sharded from the start.
        zero3_save_16bit_model: let DeepSpeed's own saving gather the weights in 16 bit.
        deepspeed_config: the configuration, filled in as far as is known.
        sections: its "optimizer" and "scheduler", for `DummyOptim` and `DummyScheduler`.
        selected: whether it is the one in use, of several.

    Raises:
        ValueError: a value that is not among those above; an unreadable file.
    """

    hf_ds_config: Any = None
    gradient_accumulation_steps: int | str | None = None
    gradient_clipping: float | str | None = None
    zero_stage: int | None = None
    is_train_batch_min: bool = True
    offload_optimizer_device: str | None = None
    offload_param_device: str | None = None
    offload_optimizer_nvme_path: str | None = None
    offload_param_nvme_path: str | None = None
    zero3_init_flag: bool | None = None
    zero3_save_16bit_model: bool | None = None
    transformer_moe_cls_names: str | None = None
    enable_msamp: bool = False
    msamp_opt_level: str | None = None
    selected = False

    def __post_init__(self) -> None:
        if self.enable_msamp:
            raise ValueError("enable_msamp=True: MS-AMP is not offered; use mixed_precision='bf16'")
        given = self.hf_ds_config if self.hf_ds_config is not None else os.environ.get(f"{_PREFIX}CONFIG_FILE") or None
        self.deepspeed_config = _read(getattr(given, "config", given)) if given is not None else self._from_fields()
        self.sections = {name: copy.deepcopy(self.deepspeed_config.get(name)) for name in _OWN_OPTIMIZER}
        self.zero_stage = self._stage()
        self.gradient_accumulation_steps = self.deepspeed_config.get("gradient_accumulation_steps", "auto")
        self.gradient_clipping = self.deepspeed_config.get("gradient_clipping", "auto")
        if self.zero3_init_flag is None:
            self.zero3_init_flag = self.zero_stage == 3 and _variable("ZERO3_INIT", "false").lower() == "true"

    def _from_fields(self) -> dict[str, Any]:
        zero: dict[str, Any] = {"stage": _among("zero_stage", _or(self.zero_stage, "ZERO_STAGE", "2"), _STAGES)}
        for part in ("optimizer", "param"):
            name = f"offload_{part}_device"
            device = _among(name, _or(getattr(self, name), name.upper(), "none"), _DEVICES)
            if device != "none":
                path = _or(getattr(self, f"offload_{part}_nvme_path"), f"OFFLOAD_{part.upper()}_NVME_PATH", "")
                zero[f"offload_{part}"] = {"device": device} | ({"nvme_path": path} if device == "nvme" else {})
        zero["stage"] = int(zero["stage"])
        if _or(self.zero3_save_16bit_model, "ZERO3_SAVE_16BIT_MODEL", "false").lower() == "true":
            zero["stage3_gather_16bit_weights_on_model_save"] = True
        clipping = (
            self.gradient_clipping
            if self.gradient_clipping is not None
            else os.environ.get("ACCELERATE_GRADIENT_CLIPPING")
        )
        steps = self.gradient_accumulation_steps if self.gradient_accumulation_steps is not None else "auto"
        return {
            "train_batch_size": "auto",
            "train_micro_batch_size_per_gpu": "auto",
            "gradient_accumulation_steps": steps if steps == "auto" else int(steps),
            "zero_optimization": zero,
            "gradient_clipping": "auto" if clipping in (None, "auto") else float(clipping),
        }

    def _stage(self) -> int:
        stage = self.deepspeed_config.get("zero_optimization", {}).get("stage", 0)
        return int(_among("zero_optimization.stage", stage, _STAGES))

    def get_value(self, ds_key_long: str, default: Any = None) -> Any:
        """The entry of the configuration at a path such as "zero_optimization.stage"."""
        node: Any = self.deepspeed_config
        for part in ds_key_long.split("."):
            if not isinstance(node, Mapping) or part not in node:
                return default
            node = node[part]
        return node

    @property
    def steps(self) -> int | None:
        """The micro-batches per optimizer step that it asks for; None where it leaves them to `Accelerator`."""
        asked = self.gradient_accumulation_steps
        return None if asked in (None, "auto") else int(asked)  # type: ignore[arg-type]

    def is_zero3_init_enabled(self) -> bool:
        return bool(self.zero3_init_flag)


def filled(
    plugin: DeepSpeedPlugin,
    *,
    processes: int,
    steps: int,
    micro_batch: int,
    precision: str,
    exact: bool,
    hidden: int | None,
) -> dict[str, Any]:
    """The configuration with a value for each "auto".

    Args:
        plugin: what was asked for.
        processes: how many share out a batch.
        steps: micro-batches per optimizer step.
        micro_batch: samples that one process gets of a batch.
        precision: the mixed precision.
        exact: whether only `accelerator.autocast()` lowers the precision; then weights stay as they are, but for "fp16".
        hidden: the width of the model's hidden states, from which sizes of buckets follow.

    Raises:
        ValueError: an "auto" for which nothing is known, with its place.
    """
    config = copy.deepcopy(plugin.deepspeed_config)
    _put(config, "train_micro_batch_size_per_gpu", micro_batch)
    _put(config, "gradient_accumulation_steps", steps)
    _put(
        config,
        "train_batch_size",
        config["train_micro_batch_size_per_gpu"] * config["gradient_accumulation_steps"] * processes,
    )
    _put(config, "gradient_clipping", 0.0)
    for name in ("fp16", "bf16"):
        wanted = precision == name and (not exact or name == "fp16" or name in config)
        if wanted or name in config:
            _put(config.setdefault(name, {}), "enabled", wanted)
    _fill_buckets(config.get("zero_optimization", {}), hidden)
    for name in _OWN_OPTIMIZER:
        config.pop(name, None)
    config.setdefault("steps_per_print", 2**31 - 1)
    config.setdefault("zero_allow_untested_optimizer", True)
    config.setdefault("zero_force_ds_cpu_optimizer", False)
    if open_ends := list(_automatic(config)):
        raise ValueError(
            f'the DeepSpeed configuration says "auto" for {", ".join(open_ends)}, which nothing here decides: give a value'
        )
    return config


def _fill_buckets(zero: dict[str, Any], hidden: int | None) -> None:
    """As Transformers fills them in; without a known width DeepSpeed's own defaults count."""
    sizes = {"reduce_bucket_size": 1.0, "stage3_prefetch_bucket_size": 0.9}
    for name in (*sizes, "stage3_param_persistence_threshold"):
        if zero.get(name) == "auto":
            del zero[name]
            if hidden:
                zero[name] = int(sizes[name] * hidden * hidden) if name in sizes else 10 * hidden


def _put(config: dict[str, Any], key: str, value: Any) -> None:
    if config.get(key, "auto") == "auto":
        config[key] = value


def _automatic(config: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _automatic(value, f"{prefix}{key}.")
        elif value == "auto":
            yield prefix + key


def several_plugins(given: Any, plugins: Any) -> dict[str, DeepSpeedPlugin]:
    """Plugins by name, as one of both arguments of `Accelerator` may have them; empty where neither has.

    Raises:
        ValueError: both are given, or something else than plugins.
    """
    if plugins is not None and given is not None:
        raise ValueError("deepspeed_plugin and deepspeed_plugins are both given: give one of them")
    found = given if isinstance(given, Mapping) and any(isinstance(each, DeepSpeedPlugin) for each in given.values()) else plugins
    strange = [name for name, each in (found or {}).items() if not isinstance(each, DeepSpeedPlugin)]
    if strange:
        raise ValueError(f"deepspeed_plugins has {type(found[strange[0]]).__name__} for {strange[0]!r}: each must be a DeepSpeedPlugin")
    return dict(found or {})


def understood(given: Any) -> DeepSpeedPlugin | None:
    """The plugin that `Accelerator` was given: as such, as a dict of its fields, or as DeepSpeed's own configuration (dict or path).

    Raises:
        ImportError: DeepSpeed is not installed, with the line that installs it.
        ValueError: something else.
    """
    from .world import flag

    if given is None:
        given = DeepSpeedPlugin() if flag("ACCELERATE_USE_DEEPSPEED") else None
    elif isinstance(given, (str, os.PathLike)):
        given = DeepSpeedPlugin(hf_ds_config=os.fspath(given))
    elif isinstance(given, Mapping):
        fields = set(DeepSpeedPlugin.__dataclass_fields__)
        own = {"gradient_accumulation_steps", "gradient_clipping"}
        given = (
            DeepSpeedPlugin(**given)
            if set(given) <= fields and not set(given) <= own
            else DeepSpeedPlugin(hf_ds_config=dict(given))
        )
    if given is not None and not isinstance(given, DeepSpeedPlugin):
        raise ValueError(
            f"deepspeed_plugin is a {type(given).__name__}: it must be a DeepSpeedPlugin, a dict, or the path of a JSON file"
        )
    if given is not None and importlib.util.find_spec("deepspeed") is None:
        raise ImportError(
            "DeepSpeed is not installed: pip install deepspeed (without it, FullyShardedDataParallelPlugin shards the same)"
        )
    return given


def _read(given: Any) -> dict[str, Any]:
    if isinstance(given, Mapping):
        return copy.deepcopy(dict(given))
    try:
        read = json.loads(Path(given).read_text(encoding="utf-8"))
    except (OSError, TypeError, ValueError) as error:
        raise ValueError(f"the DeepSpeed configuration {given!r} cannot be read: {error}") from None
    if not isinstance(read, dict):
        raise ValueError(f"the DeepSpeed configuration {given!r} must be a JSON object")
    return read


def _or(value: Any, variable: str, default: str) -> str:
    return _variable(variable, default) if value is None else str(value)


def _variable(name: str, default: str) -> str:
    return os.environ.get(_PREFIX + name) or default


def _among(field: str, value: Any, allowed: tuple[str, ...]) -> str:
    if str(value) not in allowed:
        raise ValueError(f"{field} is {value!r}: it must be one of {', '.join(allowed)}")
    return str(value)
