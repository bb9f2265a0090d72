"""BatchNorm over the global batch, in place: same class, same keys, on CPU and accelerators, forward and backward.

torch's SyncBatchNorm changes the class and refuses the CPU. Here the forward of torch's BatchNorm classes is replaced once,
and asks whether the module was registered by an Accelerator. Statistics are synchronised only in training and while
gradients are enabled; a process with borrowed samples counts zero.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

import torch
from torch import nn
from torch._compile import _disable_dynamo
from torch.nn.modules.batchnorm import _BatchNorm

from .batches import Tracker
from .collectives import all_reduce
from .world import World

_registered: weakref.WeakKeyDictionary[nn.Module, tuple[World, Tracker]] = weakref.WeakKeyDictionary()


def synchronize(model: nn.Module, world: World, tracker: Tracker) -> None:
    """Let the BatchNorm layers of `model` take their training statistics over all processes."""
    layers = [module for module in model.modules() if isinstance(module, _BatchNorm) and not isinstance(module, nn.SyncBatchNorm)]
    if layers:
        _patch_forward()
    for layer in layers:
        _registered[layer] = (world, tracker)


@functools.cache
def _patch_forward() -> None:
    plain = _BatchNorm.forward

    @functools.wraps(plain)
    def forward(self: _BatchNorm, input: torch.Tensor) -> torch.Tensor:
        entry = _registered.get(self) if self.training and torch.is_grad_enabled() else None
        return plain(self, input) if entry is None else _global_forward(self, input, *entry)

    _BatchNorm.forward = forward  # type: ignore[method-assign]


@_disable_dynamo
def _global_forward(layer: _BatchNorm, x: torch.Tensor, world: World, tracker: Tracker) -> torch.Tensor:
    layer._check_input_dim(x)
    share = tracker.share_of(x)
    counted = x[:0] if share is not None and share.borrowed else x
    mean, variance, count = _global_statistics(_wide(counted), world)
    if counted.numel() <= counted.shape[1] and count <= 1:  # asked only where few are here: reading `count` waits for the device
        raise ValueError(f"Expected more than 1 value per channel when training, got {count:.0f} over all processes")
    if layer.track_running_stats:
        _update_running(layer, mean.detach(), variance.detach(), count)
    shape = (1, -1) + (1,) * (x.ndim - 2)
    scale = torch.rsqrt(variance + layer.eps)
    if layer.weight is not None:
        scale = scale * layer.weight
    y = (_wide(x) - mean.view(shape)) * scale.view(shape)
    if layer.bias is not None:
        y = y + layer.bias.view(shape)
    if y.requires_grad:
        # At weight zero the loss may send NaN (zero times infinity), which must not reach the other processes' statistics.
        y.register_hook(lambda gradient: gradient.masked_fill(gradient.isnan(), 0) if tracker.at_zero else None)
    return y.to(x.dtype)


def _wide(x: torch.Tensor) -> torch.Tensor:
    """`x` in the precision of its statistics: half precisions take them in float32, as torch does."""
    return x if x.dtype == torch.float64 else x.float()


def _global_statistics(x: torch.Tensor, world: World) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Mean and biased variance per channel over all processes, and the number of values per channel.

    One message: each process puts its count, mean and squared deviations into its own row of a sum.
    """
    dims = [0, *range(2, x.ndim)]
    count = x.numel() // x.shape[1]
    if count:
        mean = x.mean(dims)
        deviations = (x - mean.view(1, -1, *(1,) * (x.ndim - 2))).square().sum(dims)
        mine = torch.cat([mean.new_full((1,), count), mean, deviations])
    else:
        # The other processes come here in the backward too, so this one has to.
        mine = x.new_zeros(1 + 2 * x.shape[1]).requires_grad_(x.requires_grad)
    rows = nn.functional.pad(mine[None], (0, 0, world.rank, world.size - 1 - world.rank))
    rows = _AllReduce.apply(rows, world)
    counts, means, deviations = rows.split([1, x.shape[1], x.shape[1]], dim=1)
    counts = counts.detach()
    total = counts.sum()
    mean = (counts * means).sum(0) / total
    variance = (deviations + counts * (means - mean).square()).sum(0) / total
    return mean, variance, total


@torch.no_grad()
def _update_running(layer: _BatchNorm, mean: torch.Tensor, variance: torch.Tensor, count: torch.Tensor) -> None:
    layer.num_batches_tracked.add_(1)
    momentum = 1.0 / float(layer.num_batches_tracked) if layer.momentum is None else layer.momentum
    unbiased = variance * (count / (count - 1))
    layer.running_mean.lerp_(mean.to(layer.running_mean.dtype), momentum)
    layer.running_var.lerp_(unbiased.to(layer.running_var.dtype), momentum)


class _AllReduce(torch.autograd.Function):
    """Sum over processes; its gradient is the sum over processes of the gradients, at any order of differentiation."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, world: World) -> torch.Tensor:
        ctx.world = world
        return all_reduce(world, x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return _AllReduce.apply(gradient.contiguous(), ctx.world), None
