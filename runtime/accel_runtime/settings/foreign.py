"""What Accelerate's files hold besides the settings of this runtime: old names, old values, and what has no meaning here."""

from __future__ import annotations

_COMPILE = "call `model = torch.compile(model)` in the script instead"
UNUSED: dict[str, str] = {
    "compute_environment": "",
    "main_training_function": "",
    "same_network": "",
    "commands": "",
    "command_file": "",
    "tpu_name": "",
    "tpu_zone": "",
    "tpu_use_cluster": "",
    "tpu_use_sudo": "",
    "tpu_vm": "",
    "tpu_env": "",
    "fp8_config": "fp8 is computed by torchao; its settings are Accelerator(kwargs_handlers=[AORecipeKwargs(...)])",
    "downcast_bf16": "mixed_precision: bf16 is what computes in bfloat16",
    "dynamo_config": _COMPILE,
    "dynamo_backend": _COMPILE,
    "enable_cpu_affinity": "bind the processes with numactl, if it matters",
    "mpirun_config": "start with `mpirun -np N python SCRIPT` instead; its variables are understood",
}
"""Top-level key without a meaning here -> what to do instead, where something asked for is then not done."""

RENAMED = {
    ("fsdp_config", "fsdp_backward_prefetch_policy"): "fsdp_backward_prefetch",
    ("deepspeed_config", "gradient_accumulation_steps"): "gradient_accumulation_steps",
}
"""Section and old key -> the setting."""

OLD_VALUES = {
    "fsdp_sharding_strategy": dict(
        zip("12345", ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2"), strict=True)
    ),
    "fsdp_state_dict_type": dict(
        zip("123", ("FULL_STATE_DICT", "LOCAL_STATE_DICT", "SHARDED_STATE_DICT"), strict=True)
    ),
    "distributed_type": {"TPU": "XLA"},
}
"""Setting -> how its values were once written -> how they are written now."""

UNUSED_IN_DEEPSPEED = (
    "deepspeed_hostfile",
    "deepspeed_multinode_launcher",
    "deepspeed_exclusion_filter",
    "deepspeed_inclusion_filter",
    "deepspeed_moe_layer_cls_names",
)

NOTHING = {"", "null", "none", "~", "no", "false", "off", "{}", "[]"}
"""Values, in lower case, that ask for nothing."""

OF_DEEPSPEED = {
    "zero_optimization",
    "train_batch_size",
    "train_micro_batch_size_per_gpu",
    "zero_allow_untested_optimizer",
    "bf16",
    "steps_per_print",
}
"""Keys by which DeepSpeed's own configuration is known."""
