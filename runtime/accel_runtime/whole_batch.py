"""The rows of all processes with their gradients, for losses that look at the whole batch at once.

Every process computes the same loss from the gathered rows, and its gradient goes back through its own rows only. With
`loss_p` the loss that process p of N computes and `s_p` its share of the batch, `backward` averages `N s_p` times the
gradients, so a gathered row passes on `1 / s_p` times its own: what is averaged is then the gradient of the one loss, and
terms that depend on parameters alone (weight penalties) count once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from . import collectives
from .global_values import no_rows
from .nested import find_batch_size, leaves, map_tensors

if TYPE_CHECKING:
    from .accelerator import Accelerator


def gather_with_grad(accelerator: Accelerator, data: Any) -> Any:
    """`data` of this process's rows -> that of the global batch; see `Accelerator.gather_with_grad`."""
    if any(not tensor.ndim for tensor in leaves(data)):
        raise ValueError("gather_with_grad was given a number: it gathers tensors with one row per sample; see global_mean for means")
    if accelerator.num_processes == 1:
        return data
    mine = data
    if accelerator.exact and accelerator.tracker.borrows(find_batch_size(data), next(leaves(data), None)):
        mine = map_tensors(no_rows, data)
    whole, spans = collectives.gather_rows_with_spans(accelerator.world, mine)
    real = 0 if accelerator.exact else accelerator.gradient_state.remainder
    places = iter([(min(start, real), min(stop, real)) for start, stop in spans] if real > 0 else spans)
    owns = iter(leaves(data))
    return map_tensors(lambda rows: _with_grad(accelerator, next(owns), rows[:real] if real > 0 else rows, *next(places)), whole)


def _with_grad(accelerator: Accelerator, own: torch.Tensor, whole: torch.Tensor, start: int, stop: int) -> torch.Tensor:
    if not own.requires_grad or not torch.is_grad_enabled():
        return whole
    share = accelerator.tracker.share_of(own)
    scale = 1.0 if share is None else share.scale
    return _Whole.apply(own, whole, start, stop, accelerator.num_processes / scale if scale else 0.0)  # type: ignore[no-any-return]


class _Whole(torch.autograd.Function):
    """Rows `start:stop` of the whole are this process's own; their gradient goes back to them, `factor` times."""

    @staticmethod
    def forward(ctx: Any, own: torch.Tensor, whole: torch.Tensor, start: int, stop: int, factor: float) -> torch.Tensor:
        ctx.own, ctx.place, ctx.factor = own.shape, slice(start, stop), factor
        return whole.view_as(whole)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # type: ignore[override]
        mine = gradient[ctx.place]
        if ctx.factor == 0.0 or mine.shape != ctx.own:  # a borrowed row, or samples that repeat others
            return torch.cat([mine * ctx.factor, gradient.new_zeros(ctx.own[0] - mine.shape[0], *ctx.own[1:])]), None, None, None, None
        return mine * ctx.factor, None, None, None, None
