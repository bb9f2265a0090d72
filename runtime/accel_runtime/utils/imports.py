"""`is_*_available`: whether a library can be imported, or a kind of device is there."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from typing import Any

import torch

_PACKAGES = {
    "bnb": "bitsandbytes",
    "boto3": "boto3",
    "import_timer": "import_timer",
    "lomo": "lomo_optim",
    "megatron_lm": "megatron",
    "msamp": "msamp",
    "peft": "peft",
    "pynvml": "pynvml",
    "schedulefree": "schedulefree",
    "torch_xla": "torch_xla",
    "transformer_engine": "transformer_engine",
}
_DEVICES = ("hpu", "mlu", "musa", "npu", "sdaa", "xpu", "neuron")


def is_cuda_available() -> bool:
    """Whether there is a CUDA device."""
    return torch.cuda.is_available()


def is_mps_available(min_version: str = "1.12") -> bool:
    """Whether there is an Apple GPU."""
    return torch.backends.mps.is_available()


def is_bf16_available(ignore_tpu: bool = False) -> bool:
    """Whether this machine computes in bfloat16; CPUs do."""
    return not torch.cuda.is_available() or torch.cuda.is_bf16_supported()


def is_fp16_available() -> bool:
    """Whether this machine computes in float16."""
    return True


def is_fp8_available() -> bool:
    """Whether fp8 training is offered."""
    return _found("torchao")


def is_rocm_available() -> bool:
    """Whether torch was built for AMD GPUs."""
    return torch.version.hip is not None


def is_torchdata_stateful_dataloader_available() -> bool:
    """Whether torchdata has `StatefulDataLoader`."""
    return _found("torchdata") and _found("torchdata.stateful_dataloader")


def __getattr__(name: str) -> Callable[..., bool]:
    if not (name.startswith("is_") and name.endswith("_available")):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    what = name.removeprefix("is_").removesuffix("_available")
    if what in _DEVICES:
        return lambda *args, **kwargs: hasattr(torch, what) and getattr(torch, what).is_available()
    package = _PACKAGES.get(what, what)
    return lambda *args, **kwargs: _found(package)


@functools.cache
def _found(package: str) -> Any:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False
