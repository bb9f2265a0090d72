"""tf32: products of float32 matrices, and convolutions, with ten bits of mantissa in the multiplications."""

from __future__ import annotations

import os
import warnings

import torch

_VARIABLE = "ACCELERATE_TF32"
_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def asked_tf32(given: bool | None) -> bool | None:
    """What the script says, else the environment's `ACCELERATE_TF32`; None: nothing.

    Raises:
        ValueError: the variable is neither true nor false.
    """
    text = os.environ.get(_VARIABLE, "").lower()
    if given is not None or not text:
        return given
    if text not in _YES + _NO:
        raise ValueError(f"{_VARIABLE} is {text!r}: it must be 'true' or 'false'")
    return text in _YES


def has_tf32(device: torch.device) -> bool:
    """Whether `device` multiplies in tf32: NVIDIA from compute capability 8.0 on, and what else torch says of its accelerators."""
    if device.type == "cpu":
        return False
    supported = getattr(torch.get_device_module(device), "is_tf32_supported", None)
    if supported is not None:
        return bool(supported())
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)


def set_tf32(asked: bool | None, device: torch.device, announce: bool) -> None:
    """Turn tf32 on or off for this process; None leaves torch's settings, and the script's own, as they are.

    A device without it computes float32 as ever, and the one warning says so.
    """
    if asked and not has_tf32(device):
        if announce:
            name = "CPU" if device.type == "cpu" else f"device {device.type}"
            warnings.warn(f"tf32=True changes nothing: the {name} does not multiply in tf32, float32 stays what it is.", stacklevel=3)
    elif asked is not None:
        # Not torch.backends.fp32_precision: once that is set, torch.get_float32_matmul_precision(), which compilers call, is an error.
        torch.set_float32_matmul_precision("high" if asked else "highest")
        torch.backends.cudnn.allow_tf32 = asked
