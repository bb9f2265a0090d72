"""The rows of all processes with their gradients, for losses that look at the whole batch at once.

Every process computes the same loss from the gathered rows, and its gradient goes back through its own rows only. With
`loss_p` the loss that process p of N computes and `s_p` its share of the batch, `backward` averages `N s_p` times the
gradients, so a gathered row passes on `1 / s_p` times its own: what is averaged is then the gradient of the one loss, and
terms that depend on parameters alone (weight penalties) count once. A loss that is computed from gathered rows alone, be it
those of several batches, counts the same on every process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from . import collectives
from .global_values import no_rows
from .nested import find_batch_size, leaves, map_tensors
from .origins import owners, tensors_behind

if TYPE_CHECKING:
    from .accelerator import Accelerator
    from .passes import Delivered


def gather_with_grad(accelerator: Accelerator, data: Any, in_blocks: bool = False) -> Any:
    """`data` of this process's rows -> that of the global batch; see `Accelerator.gather_with_grad`."""
    if in_blocks:
        return by_blocks(accelerator, data, lambda parts: gather_with_grad(accelerator, parts))
    if any(not tensor.ndim for tensor in leaves(data)):
        raise ValueError("gather_with_grad was given a number: it gathers tensors with one row per sample; see global_mean for means")
    if accelerator.data_world.size == 1:
        return data
    mine = data
    if accelerator.exact and accelerator.tracker.borrows(find_batch_size(data), next(leaves(data), None)):
        mine = map_tensors(no_rows, data)
    whole, spans = collectives.gather_rows_with_spans(accelerator.data_world, mine)
    real = 0 if accelerator.exact else accelerator.gradient_state.remainder
    places = iter([(min(start, real), min(stop, real)) for start, stop in spans] if real > 0 else spans)
    owns = iter(leaves(data))
    return map_tensors(lambda rows: _with_grad(accelerator, next(owns), rows[:real] if real > 0 else rows, *next(places)), whole)


def local_rows(accelerator: Accelerator, whole: Any) -> Any:
    """Of `whole`, with the rows of a batch in use, those of this process; see `Accelerator.local_rows`."""
    if accelerator.num_processes == 1:
        return whole
    rows = find_batch_size(whole)
    batches = accelerator.tracker.delivered()
    share = next((batch.share for batch in reversed(batches) if batch.share.total == rows), None)
    if share is None:
        known = " and ".join(str(total) for total in sorted({batch.share.total for batch in batches})) or "no"
        raise ValueError(f"local_rows was given {rows} rows, and the batches in use have {known} rows: give it what was computed from all rows of one of them (loaders need split_batches=True)")
    return map_tensors(lambda tensor: tensor[share.start : share.stop], whole)


def by_blocks(accelerator: Accelerator, data: Any, gather: Callable[[Any], Any]) -> Any:
    """`data` gathered block by block, where its rows are several batches one after another.

    Raises:
        ValueError: its rows are no multiple of those that this process has of the batch, or the batch is not known.
    """
    if accelerator.data_world.size == 1:
        return data
    return map_tensors(lambda rows: torch.cat(gather(_blocks(accelerator, rows))), data)


def _blocks(accelerator: Accelerator, rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
    share = accelerator.tracker.latest(rows) if accelerator.exact else None
    if share is None or len(rows) % share.local:
        known = "no batch of a loader with split_batches=True is in use" if share is None else f"this process has {share.local} samples of the batch"
        raise ValueError(f"in_blocks was given {len(rows)} rows, and {known}: give it tensors that have the whole batch one or more times, one after another")
    return rows.split(share.local)


def _with_grad(accelerator: Accelerator, own: torch.Tensor, whole: torch.Tensor, start: int, stop: int) -> torch.Tensor:
    if not own.requires_grad or not torch.is_grad_enabled():
        return whole
    share = accelerator.tracker.share_of(own)
    accelerator.gathers_with_grad = True
    return _Whole.apply(own, whole, start, stop, accelerator, 1.0 if share is None else share.scale)  # type: ignore[no-any-return]


def is_whole(loss: torch.Tensor, batches: list[Delivered]) -> bool:
    """Whether no gradient of `loss` reaches rows of `batches`, or those of other processes, but through gathered rows."""
    tensors = list(tensors_behind(loss, _Whole._backward_cls))
    return any(tensor is None for tensor in tensors) and not owners((t for t in tensors if t is not None), batches)


class _Whole(torch.autograd.Function):
    """Rows `start:stop` of the whole are this process's own; their gradient goes back to them, `factor` times."""

    @staticmethod
    def forward(ctx: Any, own: torch.Tensor, whole: torch.Tensor, start: int, stop: int, accelerator: Accelerator, scale: float) -> torch.Tensor:
        ctx.own, ctx.place, ctx.accelerator, ctx.scale = own.shape, slice(start, stop), accelerator, scale
        return whole.view_as(whole)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # type: ignore[override]
        mine, running = gradient[ctx.place], ctx.accelerator.backward_scale
        scale = ctx.scale if running is None else running
        factor = ctx.accelerator.data_world.size / scale if scale else 0.0
        if factor == 0.0 or mine.shape != ctx.own:  # a borrowed row, or samples that repeat others
            return torch.cat([mine * factor, gradient.new_zeros(ctx.own[0] - mine.shape[0], *ctx.own[1:])]), None, None, None, None, None
        return mine * factor, None, None, None, None, None
