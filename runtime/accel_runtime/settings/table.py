"""The settings of a launch. Names, sections and variables are Hugging Face Accelerate's, so its files and habits serve.

A new setting is a new entry: the option of `accel launch`, the key of the file with its check and comment, and the
variable that the processes find all follow from it.
"""

from __future__ import annotations

from ..kwargs import PRECISIONS
from ..plugins import SHARDING_STRATEGIES, STATE_DICT_TYPES, WRAP_POLICIES
from .kinds import COUNT, DEVICES, FILE, FLAG, NUMBER, PORT, POSITIVE, SECONDS, TEXT, YES_NO, Kind, choice
from .setting import Setting

DISTRIBUTED_TYPES = (
    "NO",
    "MULTI_CPU",
    "MULTI_GPU",
    "MULTI_NPU",
    "MULTI_XPU",
    "MULTI_HPU",
    "MULTI_MLU",
    "MULTI_MUSA",
    "MULTI_SDAA",
    "FSDP",
    "DEEPSPEED",
    "MEGATRON_LM",
    "XLA",
)
_OFFLOAD = choice("none", "cpu", "nvme")


_PROCESSES = (
    Setting("distributed_type", choice(*DISTRIBUTED_TYPES), "how the processes work together", on_command_line=False),
    Setting("num_processes", COUNT, "processes on all machines together; default: one per device, one without"),
    Setting("cpu", FLAG, "train on the CPU even where there are devices", default=False, key="use_cpu"),
    Setting("tpu", FLAG, "train on this machine's TPU: one process drives all its devices", default=False, in_file=False),
    Setting("gpu_ids", DEVICES, "the devices to use, e.g. 0,2; default: all", default="all"),
    Setting(
        "num_cpu_threads_per_process",
        COUNT,
        "default: the cores of the machine, shared out",
        variable="OMP_NUM_THREADS",
    ),
)
_ACCELERATOR = (
    Setting(
        "mixed_precision", choice(*PRECISIONS), "precision of the forward pass", variable="ACCELERATE_MIXED_PRECISION"
    ),
    Setting("tf32", YES_NO, "multiply float32 matrices in tf32 where the device can", variable="ACCELERATE_TF32"),
    Setting(
        "gradient_accumulation_steps",
        COUNT,
        "micro-batches per optimizer step",
        variable="ACCELERATE_GRADIENT_ACCUMULATION_STEPS",
    ),
    Setting("debug", FLAG, "check collectives more closely", default=False, variable="ACCELERATE_DEBUG_MODE"),
)
_MACHINES = (
    Setting("num_machines", COUNT, "how many machines; start the command on each; default: 1", default=1),
    Setting("machine_rank", NUMBER, "number of this machine, from 0", default=0),
    Setting("main_process_ip", TEXT, "address of machine 0"),
    Setting("main_process_port", PORT, "a free port of machine 0; default: 29500, on one machine any free port"),
    Setting("rdzv_backend", choice("static", "c10d"), "how the machines meet; default: static", default="static"),
    Setting("rdzv_conf", TEXT, "further settings of torch's rendezvous, e.g. is_host=1,timeout=600", in_file=False),
    Setting("max_restarts", NUMBER, "start again so many times after a failure; default: 0", default=0),
    Setting("monitor_interval", SECONDS, "seconds between looks at the processes; default: 0.1", default=0.1),
)


def _fsdp(name: str, kind: Kind, help: str) -> Setting:
    variable = "FSDP_TRANSFORMER_CLS_TO_WRAP" if name == "transformer_layer_cls_to_wrap" else f"FSDP_{name.upper()}"
    return Setting(f"fsdp_{name}", kind, help, section="fsdp_config", variable=variable)


_FSDP = (
    Setting(
        "use_fsdp",
        FLAG,
        "shard parameters, gradients and optimizer states (FSDP)",
        default=False,
        variable="ACCELERATE_USE_FSDP",
        in_file=False,
    ),
    _fsdp("version", choice("1", "2"), "understood; sharding is torch's fully_shard (2) for both"),
    _fsdp(
        "sharding_strategy",
        choice(*SHARDING_STRATEGIES),
        "what is sharded, by FSDP 1's names",
    ),
    _fsdp(
        "reshard_after_forward",
        choice("true", "false", *SHARDING_STRATEGIES),
        "true: free parameters between forward and backward (saves memory, costs traffic)",
    ),
    _fsdp("offload_params", YES_NO, "keep parameters and optimizer states in host memory"),
    _fsdp(
        "auto_wrap_policy",
        choice(*WRAP_POLICIES),
        "which modules are sharded as a unit",
    ),
    _fsdp(
        "transformer_layer_cls_to_wrap",
        TEXT,
        "names of the block classes for TRANSFORMER_BASED_WRAP, with commas between them",
    ),
    _fsdp("min_num_params", COUNT, "parameters of a module from which on SIZE_BASED_WRAP makes it a unit"),
    _fsdp(
        "backward_prefetch",
        choice("BACKWARD_PRE", "BACKWARD_POST", "NO_PREFETCH"),
        "when the next parameters are fetched in backward (FSDP 1)",
    ),
    _fsdp("forward_prefetch", YES_NO, "fetch the next parameters during forward (FSDP 1)"),
    _fsdp(
        "state_dict_type",
        choice(*STATE_DICT_TYPES),
        "what checkpoints hold",
    ),
    _fsdp("use_orig_params", YES_NO, "keep the parameters' own shapes (FSDP 1; always so in 2)"),
    _fsdp("cpu_ram_efficient_loading", YES_NO, "only the main process reads weights; the others receive them"),
    _fsdp("sync_module_states", YES_NO, "send the main process's weights to all at the start (FSDP 1)"),
    _fsdp("activation_checkpointing", YES_NO, "compute activations again in backward instead of keeping them"),
    _fsdp("activation_checkpointing_offload", YES_NO, "keep the checkpointed activations in host memory"),
    _fsdp("ignored_modules", TEXT, "regular expression for modules that are left unsharded"),
)


def _parallel(name: str, help: str, kind: Kind = COUNT) -> Setting:
    return Setting(
        f"parallelism_config_{name}",
        kind,
        help,
        section="parallelism_config",
        variable=f"PARALLELISM_CONFIG_{name.upper()}",
    )


_PARALLELISM = (
    Setting(
        "use_parallelism_config",
        FLAG,
        "lay the processes out by the sizes below",
        default=False,
        variable="ACCELERATE_USE_PARALLELISM_CONFIG",
        in_file=False,
    ),
    _parallel("dp_replicate_size", "groups of processes that each hold a whole model"),
    _parallel("dp_shard_size", "processes over which parameters are sharded"),
    _parallel("tp_size", "processes that share each layer (tensor parallelism)"),
    _parallel("pp_size", "stages of a pipeline, one on each process (the script prepares it)"),
    _parallel("cp_size", "processes that share each sequence (context parallelism)"),
    _parallel("cp_backend", "understood; there is one way to share sequences", choice("torch")),
    _parallel(
        "cp_comm_strategy", "understood; keys and values are gathered either way", choice("allgather", "alltoall")
    ),
    _parallel("sp_size", "processes that share each sequence (DeepSpeed's sequence parallelism)"),
)


def _deepspeed(name: str, kind: Kind, help: str, variable: str = "") -> Setting:
    return Setting(
        name, kind, help, section="deepspeed_config", variable=variable or f"ACCELERATE_DEEPSPEED_{name.upper()}"
    )


_DEEPSPEED = (
    Setting(
        "use_deepspeed", FLAG, "train with DeepSpeed", default=False, variable="ACCELERATE_USE_DEEPSPEED", in_file=False
    ),
    _deepspeed(
        "deepspeed_config_file",
        FILE,
        "DeepSpeed's own JSON file; what it says goes before the settings below",
        "ACCELERATE_DEEPSPEED_CONFIG_FILE",
    ),
    _deepspeed(
        "zero_stage",
        choice("0", "1", "2", "3"),
        "what ZeRO shards: 1 optimizer states, 2 and gradients, 3 and parameters",
    ),
    _deepspeed("offload_optimizer_device", _OFFLOAD, "where optimizer states are kept"),
    _deepspeed("offload_param_device", _OFFLOAD, "where parameters are kept (ZeRO 3)"),
    _deepspeed("offload_optimizer_nvme_path", TEXT, "folder for optimizer states on NVMe"),
    _deepspeed("offload_param_nvme_path", TEXT, "folder for parameters on NVMe"),
    Setting(
        "gradient_clipping",
        POSITIVE,
        "largest norm of the gradient",
        section="deepspeed_config",
        variable="ACCELERATE_GRADIENT_CLIPPING",
    ),
    _deepspeed(
        "zero3_init_flag", YES_NO, "make models sharded from the start (ZeRO 3)", "ACCELERATE_DEEPSPEED_ZERO3_INIT"
    ),
    _deepspeed(
        "zero3_save_16bit_model",
        YES_NO,
        "gather the weights in 16 bit when saving (ZeRO 3)",
        "ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL",
    ),
)


def _megatron(name: str, kind: Kind, help: str) -> Setting:
    return Setting(
        f"megatron_lm_{name}", kind, help, section="megatron_lm_config", variable=f"MEGATRON_LM_{name.upper()}"
    )


_MEGATRON = (
    Setting(
        "use_megatron_lm",
        FLAG,
        "spread the model by Megatron-LM's degrees, with torch's own tensor parallelism",
        default=False,
        variable="ACCELERATE_USE_MEGATRON_LM",
        in_file=False,
    ),
    _megatron("tp_degree", COUNT, "processes that share each layer"),
    _megatron("pp_degree", COUNT, "stages of a pipeline (the script prepares it)"),
    _megatron("use_distributed_optimizer", YES_NO, "shard weights and optimizer states over the groups"),
    _megatron("recompute_activations", YES_NO, "compute activations again in backward instead of keeping them"),
    _megatron("num_micro_batches", COUNT, "understood; gradient_accumulation_steps says it"),
    _megatron("sequence_parallelism", YES_NO, "split activations between the split layers too"),
    _megatron("gradient_clipping", POSITIVE, "understood; the script clips"),
)
_OUTPUT = (
    Setting("log_dir", TEXT, "a folder in which each process's output is written, besides the terminal", in_file=False),
    Setting(
        "tee",
        TEXT,
        "what --log_dir shows on the terminal too: 0 nothing, 1 stdout, 2 stderr, 3 both; default: 3",
        in_file=False,
    ),
)

GROUPS: dict[str, tuple[Setting, ...]] = {
    "how many processes": _PROCESSES,
    "defaults for Accelerator's arguments": _ACCELERATOR,
    "sharding (FSDP)": _FSDP,
    "parallelism": _PARALLELISM,
    "DeepSpeed": _DEEPSPEED,
    "Megatron's degrees": _MEGATRON,
    "several machines": _MACHINES,
    "output": _OUTPUT,
}
"""Heading -> settings, in the order of `--help` and of a file."""

SETTINGS = {setting.name: setting for group in GROUPS.values() for setting in group}
"""All settings by name."""
