"""BatchNorm over the global batch, in place: same class, same keys, on CPU and accelerators, forward and backward.

torch's SyncBatchNorm changes the class and refuses the CPU. Here the forward of torch's BatchNorm classes is replaced once. In
training every such layer takes the statistics of all processes, with gradients or without, of prepared models, their copies and
averages alike: all processes run the same forwards. So does `F.batch_norm` with running statistics that a prepared model in
training has. Rows which all processes hold whole have the same statistics either way; a process with borrowed samples counts zero.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any, NamedTuple

import torch
from torch import nn
from torch._compile import _disable_dynamo
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from .batches import Tracker
from .collectives import all_reduce
from .world import World

_models: weakref.WeakSet[nn.Module] = weakref.WeakSet()
_session: tuple[World, weakref.ref[Tracker]] | None = None


class _Norm(NamedTuple):
    """What a layer normalises with: arguments of `F.batch_norm`."""

    running_mean: torch.Tensor | None
    running_var: torch.Tensor | None
    weight: torch.Tensor | None
    bias: torch.Tensor | None
    momentum: float
    eps: float


def synchronize(model: nn.Module, world: World, tracker: Tracker) -> None:
    """Let BatchNorm take its training statistics over all processes, in `model` and in models that are not prepared."""
    global _session
    _session = (world, weakref.ref(tracker))
    _models.add(model)
    _patch()


def leave_alone() -> None:
    """From now on every process has its own statistics."""
    global _session
    _session = None


@functools.cache
def _patch() -> None:
    plain_forward, plain_function = _BatchNorm.forward, functional.batch_norm

    @functools.wraps(plain_forward)
    def forward(self: _BatchNorm, input: torch.Tensor) -> torch.Tensor:
        if not self.training or _tracker() is None or input.is_meta:
            return plain_forward(self, input)
        return _layer_forward(self, input)

    @functools.wraps(plain_function)
    def batch_norm(
        input: torch.Tensor,
        running_mean: torch.Tensor | None,
        running_var: torch.Tensor | None,
        weight: torch.Tensor | None = None,
        bias: torch.Tensor | None = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> torch.Tensor:
        norm = _Norm(running_mean, running_var, weight, bias, momentum, eps)
        if not training or _tracker() is None or not _is_trained(running_mean):
            return plain_function(input, running_mean, running_var, weight, bias, training, momentum, eps)
        return _global_batch_norm(input, norm)

    _BatchNorm.forward = forward  # type: ignore[method-assign]
    functional.batch_norm = batch_norm


@_disable_dynamo
def _tracker() -> Tracker | None:
    return None if _session is None else _session[1]()


@_disable_dynamo
def _is_trained(running_mean: torch.Tensor | None) -> bool:
    """Whether these are running statistics of a prepared model in training, and no copies made for other channels."""
    owners = (module for model in _models for module in model.modules() if module.training)
    return running_mean is not None and any(buffer is running_mean for module in owners for buffer in module._buffers.values())


@_disable_dynamo
def _layer_forward(layer: _BatchNorm, x: torch.Tensor) -> torch.Tensor:
    layer._check_input_dim(x)
    momentum = layer.momentum
    if layer.track_running_stats and layer.num_batches_tracked is not None:
        layer.num_batches_tracked.add_(1)
        momentum = 1.0 / float(layer.num_batches_tracked) if momentum is None else momentum
    running = (layer.running_mean, layer.running_var) if layer.track_running_stats else (None, None)
    return _global_batch_norm(x, _Norm(*running, layer.weight, layer.bias, momentum or 0.0, layer.eps))


@_disable_dynamo
def _global_batch_norm(x: torch.Tensor, norm: _Norm) -> torch.Tensor:
    assert _session is not None
    world, tracker = _session[0], _session[1]()
    assert tracker is not None
    counted = x[:0] if tracker.counts_nothing(x) else x
    mean, variance, count, distinct = _global_statistics(_wide(counted), world)
    if counted.numel() <= counted.shape[1] and count <= 1:  # asked only where few are here: reading `count` waits for the device
        raise ValueError(f"Expected more than 1 value per channel when training, got {count:.0f} over all processes")
    if norm.running_mean is not None:
        _update_running(norm, mean.detach(), variance.detach(), distinct)
    shape = (1, -1) + (1,) * (x.ndim - 2)
    scale = torch.rsqrt(variance + norm.eps)
    if norm.weight is not None:
        scale = scale * norm.weight
    y = (_wide(x) - mean.view(shape)) * scale.view(shape)
    if norm.bias is not None:
        y = y + norm.bias.view(shape)
    if y.requires_grad:
        # At weight zero the loss may send NaN (zero times infinity), which must not reach the other processes' statistics.
        y.register_hook(lambda gradient: gradient.masked_fill(gradient.isnan(), 0) if tracker.at_zero else None)
    return y.to(x.dtype)


def _wide(x: torch.Tensor) -> torch.Tensor:
    """`x` in the precision of its statistics: half precisions take them in float32, as torch does."""
    return x if x.dtype == torch.float64 else x.float()


def _global_statistics(x: torch.Tensor, world: World) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Mean and biased variance per channel over all processes; the number of values per channel, in all and distinct.

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
    return mean, variance, total, _distinct(rows.detach(), total)


def _distinct(rows: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    """How many values are no repetitions: a batch that all processes hold whole has the same row of statistics on each."""
    most = rows[rows[:, 0].argmax()]
    repeated = ((rows == most).all(1) | (rows[:, 0] == 0)).all() & (most[0] > 1)
    return torch.where(repeated, most[0], total)


@torch.no_grad()
def _update_running(norm: _Norm, mean: torch.Tensor, variance: torch.Tensor, count: torch.Tensor) -> None:
    unbiased = variance * (count / (count - 1))
    norm.running_mean.lerp_(mean.to(norm.running_mean.dtype), norm.momentum)
    if norm.running_var is not None:
        norm.running_var.lerp_(unbiased.to(norm.running_var.dtype), norm.momentum)


class _AllReduce(torch.autograd.Function):
    """Sum over processes; its gradient is the sum over processes of the gradients, at any order of differentiation."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, world: World) -> torch.Tensor:
        ctx.world = world
        return all_reduce(world, x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return _AllReduce.apply(gradient.contiguous(), ctx.world), None
