"""Which strategies this runtime has: looked up by file, so that asking costs no import."""

from __future__ import annotations

from pathlib import Path

_HOMES = {
    "use_fsdp": "fsdp",
    "use_parallelism_config": "tensor_parallel",
    "use_deepspeed": "deepspeed",
    "use_megatron_lm": "tensor_parallel",
    "tpu": "xla",
}
"""Switch of a strategy -> the module in `strategies/` that holds it."""
SECTIONS = {
    "fsdp_config": "use_fsdp",
    "parallelism_config": "use_parallelism_config",
    "deepspeed_config": "use_deepspeed",
    "megatron_lm_config": "use_megatron_lm",
}
"""Section of a file -> the switch without which its settings mean nothing."""
SWITCH_OF = {"FSDP": "use_fsdp", "DEEPSPEED": "use_deepspeed", "MEGATRON_LM": "use_megatron_lm", "XLA": "tpu"}
"""Distributed type -> the switch that it turns on."""


def offered(switch: str) -> bool:
    """Whether the runtime has the strategy that `switch` turns on."""
    return (Path(__file__).parent.parent / "strategies" / f"{_HOMES[switch]}.py").is_file()
