"""Mixed precision: the autocast region and the gradient scaler."""

from __future__ import annotations

import contextlib
import types
import warnings
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from .nested import map_tensors
from .scaling import Scaler
from .world import flag

_DTYPES = {"no": None, "fp16": torch.float16, "bf16": torch.bfloat16, "fp8": torch.bfloat16}
WITHOUT_FP16 = frozenset({"cpu"})
"""Device types on which "fp16" is "no", as with `torch.cuda.amp` on a host without a GPU, unless `ACCELERATE_FP16_ON_CPU` is true."""


class Precision:
    """`mode` is "no", "fp16" (with a gradient scaler), "bf16", or "fp8" (bfloat16 around the layers that compute in float8).

    Attributes:
        dtype: the type of the autocast region, None for full precision.
        scaler: the gradient scaler of "fp16", disabled where there is no fp16; None in other modes.
        scaling: the scaler, if it is enabled.
    """

    def __init__(
        self, mode: str, device_type: str, scaler_options: dict[str, Any], autocast_options: dict[str, Any], announce: bool = True
    ) -> None:
        if mode not in _DTYPES:
            raise ValueError(f"mixed_precision is {mode!r}: it must be one of {', '.join(map(repr, _DTYPES))}")
        self.mode = mode
        self.device_type = device_type
        self.dtype = _DTYPES[mode]
        self.autocast_options = autocast_options
        self.used = False
        if mode == "fp16" and device_type in WITHOUT_FP16 and not flag("ACCELERATE_FP16_ON_CPU"):
            self.dtype = None
            scaler_options = {**scaler_options, "enabled": False}
            if announce:
                warnings.warn(f"mixed_precision='fp16' needs a GPU: on the {device_type.upper()} the training is in full precision.", stacklevel=3)
        self.scaler = Scaler(device_type, **scaler_options) if mode == "fp16" else None
        self.scaling = self.scaler if self.scaler is not None and self.scaler.is_enabled() else None

    def autocast(self, options: dict[str, Any] | None = None) -> AbstractContextManager[Any]:
        """The region in which operations run in the mode's type; nothing in full precision."""
        if self.dtype is None:
            return contextlib.nullcontext()
        self.used = True
        return torch.autocast(self.device_type, dtype=self.dtype, **{**self.autocast_options, **(options or {})})

    def warn_if_unused(self) -> None:
        """Say once that a backward ran in full precision although a mixed one was chosen."""
        if not self.used:
            self.used = True
            warnings.warn(
                f"mixed_precision={self.mode!r} is set, but the loss was computed outside accelerator.autocast(): it is in full precision.",
                stacklevel=3,
            )

    def wrap_forward(self, model: nn.Module) -> None:
        """Run `model`'s forward in the autocast region and return float32, as Accelerate does."""
        if self.dtype is not None and not isinstance(model.__dict__.get("forward"), AutocastForward):
            model.forward = AutocastForward(model, self)  # type: ignore[assignment]


class ReplacedForward:
    """A module's forward, in another precision. Copied or pickled it becomes the plain forward."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.plain = module.forward

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self.module, "forward")  # of a module whose own attributes come later

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return types.MethodType(type(self.module).forward, memo.get(id(self.module), self.module))


class AutocastForward(ReplacedForward):
    """A model's forward under autocast."""

    def __init__(self, model: nn.Module, precision: Precision) -> None:
        super().__init__(model)
        self.precision = precision

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with self.precision.autocast():
            output = self.plain(*args, **kwargs)
        return map_tensors(_to_float32, output)


def _to_float32(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor
