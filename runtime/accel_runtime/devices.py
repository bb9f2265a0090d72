"""A device that was asked for by name: there, or an error that says at once what is missing."""

from __future__ import annotations

import torch

from . import xla

_PACKAGES = {"npu": "torch_npu", "hpu": "habana_frameworks", "mlu": "torch_mlu", "musa": "torch_musa", "sdaa": "torch_sdaa"}
"""Device type -> the package that brings it to torch, which loads installed ones by itself."""


def named(name: str, source: str = "ACCELERATE_TORCH_DEVICE") -> torch.device:
    """The device called `name`, made the current one if it is an accelerator's.

    Raises:
        ValueError: torch does not know it, or this machine does not have it.
    """
    kind = name.partition(":")[0].strip().lower()
    if kind in ("xla", "tpu"):
        return xla.open_device(source)
    try:
        device = torch.device(name)
    except (RuntimeError, ValueError):
        package = f": install {_PACKAGES[kind]}" if kind in _PACKAGES else "; one looks like 'cuda:0', 'xpu', 'mps' or 'cpu'"
        raise ValueError(f"{source} is {name!r}, which is no device of this torch{package}") from None
    if device.type == "cpu":
        return device
    there = torch.accelerator.current_accelerator(check_available=True)
    if there is None or there.type != device.type:
        found = "has no accelerator that torch can use" if there is None else f"computes on {there.type}"
        raise ValueError(f"{source} is {name!r}, and this machine {found}: leave it out, or train on the CPU with Accelerator(cpu=True)")
    count = torch.accelerator.device_count()
    if device.index is not None:
        if device.index >= count:
            raise ValueError(f"{source} is {name!r}, and this machine has {count} {device.type} device{'s' * (count != 1)}, numbered from 0")
        if device.type != "mps":
            torch.accelerator.set_device_index(device.index)
    return device
