"""Train a PyTorch script on any number of processes: Accelerate's names, without the wrapping.

Names are imported when they are first used, so `import accel_runtime` costs next to nothing on top of `import torch`.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "AORecipeKwargs": "fp8_kwargs",
    "Accelerator": "accelerator",
    "AcceleratorState": "state",
    "AutocastKwargs": "kwargs",
    "CheckpointError": "checkpoint.errors",
    "DataLoaderConfiguration": "kwargs",
    "DeepSpeedPlugin": "deepspeed_plugin",
    "DistributedDataParallelKwargs": "kwargs",
    "DistributedType": "state",
    "FullyShardedDataParallelPlugin": "plugins",
    "GradScalerKwargs": "kwargs",
    "GradientAccumulationPlugin": "kwargs",
    "GradientState": "state",
    "InitProcessGroupKwargs": "kwargs",
    "LocalSGD": "local_sgd",
    "MegatronLMPlugin": "megatron_plugin",
    "ParallelismConfig": "parallelism_config",
    "PartialState": "state",
    "ProfileKwargs": "kwargs",
    "ProjectConfiguration": "kwargs",
    "TorchDynamoPlugin": "compiling",
    "World": "world",
    "cpu_offload": "big_models.dispatching",
    "debug_launcher": "launchers",
    "disk_offload": "big_models.dispatching",
    "dispatch_model": "big_models.dispatching",
    "draw": "live",
    "find_executable_batch_size": "memory",
    "gather_for_metrics": "live",
    "gather_with_grad": "live",
    "get_logger": "logging",
    "global_len": "live",
    "global_mean": "live",
    "global_sum": "live",
    "infer_auto_device_map": "big_models.device_map",
    "init_empty_weights": "big_models.empty",
    "init_on_device": "big_models.empty",
    "load_checkpoint_and_dispatch": "big_models.dispatching",
    "load_checkpoint_in_model": "big_models.loading",
    "local_rows": "live",
    "notebook_launcher": "launchers",
    "set_seed": "rng",
    "skip_first_batches": "data.skip",
}

_SUBMODULES = ("data", "data_loader", "launchers", "logging", "memory", "state", "tracking", "utils")

__all__ = [*_HOME, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    if name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME, *_SUBMODULES])


if "ACCEL_LAUNCH_NOTES" in os.environ:  # of several processes that fail, the launcher shows the first
    from .launch_notes import take_part

    take_part()
