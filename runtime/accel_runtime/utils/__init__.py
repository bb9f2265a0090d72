"""The names of `accelerate.utils` that a training script uses, from wherever they live here; imported at first use."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_NAMES = {
    "accel_runtime.kwargs": "AutocastKwargs DataLoaderConfiguration DistributedDataParallelKwargs GradScalerKwargs GradientAccumulationPlugin "
    "InitProcessGroupKwargs KwargsHandler ProfileKwargs ProjectConfiguration",
    "accel_runtime.big_models.device_map": "infer_auto_device_map",
    "accel_runtime.big_models.loading": "load_checkpoint_in_model",
    "accel_runtime.compiling": "TorchDynamoPlugin compile_regions",
    "accel_runtime.deepspeed_plugin": "DeepSpeedPlugin",
    "accel_runtime.deepspeed_stand_ins": "DummyOptim DummyScheduler",
    "accel_runtime.fp8_kwargs": "AORecipeKwargs FP8RecipeKwargs MSAMPRecipeKwargs TERecipeKwargs",
    "accel_runtime.megatron_plugin": "MegatronLMPlugin",
    "accel_runtime.parallelism_config": "DeepSpeedSequenceParallelConfig ParallelismConfig TorchContextParallelConfig TorchTensorParallelConfig",
    "accel_runtime.plugins": "FullyShardedDataParallelPlugin",
    "accel_runtime.utils.offload": "OffloadedWeightsLoader extract_submodules_state_dict load_offloaded_weight "
    "offload_state_dict offload_weight",
    "accel_runtime.memory": "clear_device_cache find_executable_batch_size release_memory should_reduce_batch_size",
    "accel_runtime.nested": "find_batch_size send_to_device",
    "accel_runtime.state": "DistributedType",
    "accel_runtime.rng": "set_seed",
    "accel_runtime.utils.dataclasses": "ComputeEnvironment DDPCommunicationHookType LoggerType PrecisionType RNGType",
    "accel_runtime.utils.environment": "are_libraries_initialized clear_environment convert_dict_to_env_variables get_int_from_env "
    "is_port_in_use parse_choice_from_env parse_flag_from_env patch_environment purge_accelerate_environment str_to_bool",
    "accel_runtime.utils.operations": "CannotPadNestedTensorWarning ConvertOutputsToFp32 broadcast broadcast_object_list concatenate "
    "convert_outputs_to_fp32 convert_to_fp32 find_device gather gather_object honor_type ignorant_find_batch_size is_namedtuple "
    "is_torch_tensor listify pad_across_processes pad_input_tensors recursively_apply reduce slice_tensors",
    "accel_runtime.utils.other": "check_os_kernel clean_state_dict_for_safetensors convert_bytes extract_model_from_parallel "
    "get_pretty_name is_compiled_module load merge_dicts recursive_getattr save tqdm wait_for_everyone",
    "accel_runtime.utils.random": "synchronize_rng_state synchronize_rng_states",
    "accel_runtime.utils.versions": "compare_versions is_torch_version",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
_SUBMODULES = (
    "constants",
    "dataclasses",
    "environment",
    "imports",
    "memory",
    "modeling",
    "offload",
    "operations",
    "other",
    "random",
    "versions",
)

MODEL_NAME = "pytorch_model"
OPTIMIZER_NAME = "optimizer"
SCHEDULER_NAME = "scheduler"
SAMPLER_NAME = "sampler"
SCALER_NAME = "scaler.pt"
RNG_STATE_NAME = "random_states"
WEIGHTS_NAME = f"{MODEL_NAME}.bin"
SAFE_MODEL_NAME = "model"
SAFE_WEIGHTS_NAME = f"{SAFE_MODEL_NAME}.safetensors"
SAFE_WEIGHTS_INDEX_NAME = f"{SAFE_WEIGHTS_NAME}.index.json"
WEIGHTS_INDEX_NAME = f"{WEIGHTS_NAME}.index.json"


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    elif name.startswith("is_") and name.endswith("_available"):
        value = getattr(import_module("accel_runtime.utils.imports"), name)
    elif name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME, *_SUBMODULES])
