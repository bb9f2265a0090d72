"""The types in which sharded weights compute and their gradients travel."""

from __future__ import annotations

from typing import Any

import torch

_TYPES = {
    "bf16": torch.bfloat16,
    "bfloat16": torch.bfloat16,
    "fp16": torch.float16,
    "float16": torch.float16,
    "fp32": torch.float32,
    "float32": torch.float32,
    "no": torch.float32,
}


def of(chosen: Any, low_precision: torch.dtype | None) -> Any:
    """Torch's `MixedPrecisionPolicy` for the plugin's `chosen` one: such a policy, a dict, a name, or None.

    Args:
        low_precision: in which models compute where nothing was chosen; gradients are then reduced, and outputs returned, in
            float32. None: as they are.

    Raises:
        ValueError: an unknown name.
    """
    from torch.distributed.fsdp import MixedPrecisionPolicy

    if isinstance(chosen, str):
        dtype = _type(chosen)
        chosen = {} if dtype is torch.float32 else {"param_dtype": dtype, "reduce_dtype": dtype, "output_dtype": dtype}
    if isinstance(chosen, dict):
        return MixedPrecisionPolicy(**{key: _type(value) for key, value in chosen.items() if key != "buffer_dtype"})
    if chosen is None and low_precision is not None:
        return MixedPrecisionPolicy(param_dtype=low_precision, reduce_dtype=torch.float32, output_dtype=torch.float32)
    return chosen or MixedPrecisionPolicy()


def _type(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value.lower() not in _TYPES:
        raise ValueError(f"mixed_precision_policy is {value!r}: it must be one of 'bf16', 'fp16', 'fp32'")
    return _TYPES[value.lower()]
