"""Running variances of BatchNorm as plain torch keeps them, where torch_xla keeps the biased variance of each batch.

Plain torch multiplies the variance of a batch of `n` values by `n / (n - 1)` before it enters the running one
(https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm1d.html); models evaluate differently without.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

_corrected: weakref.WeakSet[nn.Module] = weakref.WeakSet()


def correct(model: nn.Module) -> None:
    """Let all BatchNorm layers of `model` keep unbiased running variances, in place."""
    for module in model.modules():
        if isinstance(module, _BatchNorm) and module.track_running_stats and module not in _corrected:
            _corrected.add(module)
            _Correction(module)


class _Correction:
    """Hooks around the forward of one layer: what the batch brought to the variance is enlarged."""

    def __init__(self, layer: _BatchNorm) -> None:
        self.before: torch.Tensor | None = None
        layer.register_forward_pre_hook(self.note)
        layer.register_forward_hook(self.enlarge)

    def note(self, layer: _BatchNorm, args: tuple[Any, ...]) -> None:
        keeps = layer.training and layer.running_var is not None
        self.before = layer.running_var.clone() if keeps else None  # type: ignore[union-attr]

    def enlarge(self, layer: _BatchNorm, args: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        values = output.numel() // layer.num_features
        if self.before is None or values < 2:
            return
        with torch.no_grad():
            share = 1 / layer.num_batches_tracked if layer.momentum is None else layer.momentum
            brought = layer.running_var - (1 - share) * self.before
            # by .data: backward has saved the running variance, and uses it in evaluation only
            layer.running_var.data.add_(brought / (values - 1))  # type: ignore[union-attr, operator]
        self.before = None
