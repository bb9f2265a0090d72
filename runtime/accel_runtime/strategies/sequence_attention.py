"""Attention over a whole sequence of which each process has a part: keys and values are gathered, queries stay where they are.

A sequence is cut into twice as many chunks as there are processes, and process r of n has chunks r and 2n - 1 - r: with a causal
mask all then have as much to compute. This is the context parallelism of Llama 3 (arXiv:2407.21783, section 3.3.2).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.nn import functional

from ..collectives import all_gather_into

reduce_scatter_into: Any = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
plain_attention: Any = functional.scaled_dot_product_attention


def chunks_of(rank: int, size: int) -> tuple[int, int]:
    """Which two of the `2 * size` chunks process `rank` has."""
    return rank, 2 * size - 1 - rank


def part(tensor: torch.Tensor, dim: int, rank: int, size: int) -> torch.Tensor:
    """A copy of what process `rank` has of `tensor` along `dim`."""
    chunks = tensor.chunk(2 * size, dim)
    return torch.cat([chunks[i] for i in chunks_of(rank, size)], dim)


class _Whole(torch.autograd.Function):
    """Keys and values `[..., local, features]` of all processes, in the order of the sequence; one message each way."""

    @staticmethod
    def forward(ctx: Any, key: torch.Tensor, value: torch.Tensor, group: Any) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.group, ctx.size, ctx.split = group, dist.get_world_size(group), key.numel()
        ctx.shapes = key.shape, value.shape
        mine = torch.cat([key.flatten(), value.flatten()])
        flat = mine.new_empty(ctx.size * mine.numel())
        all_gather_into(flat, mine, group=group)
        everyone = flat.view(ctx.size, -1)
        return (
            _in_order(everyone[:, : ctx.split].unflatten(1, key.shape)),
            _in_order(everyone[:, ctx.split :].unflatten(1, value.shape)),
        )

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        everyone = torch.cat([_by_process(gradient, ctx.size).flatten(1) for gradient in gradients], 1)
        mine = everyone.new_empty(everyone.shape[1])
        reduce_scatter_into(mine, everyone.flatten(), group=ctx.group)
        key, value = mine.split([ctx.split, mine.numel() - ctx.split])
        return key.view(ctx.shapes[0]), value.view(ctx.shapes[1]), None


def _in_order(everyone: torch.Tensor) -> torch.Tensor:
    """`[process, ..., local, features]` to `[..., total, features]`."""
    heads, tails = everyone.chunk(2, -2)
    return torch.cat([*heads.unbind(0), *tails.flip(0).unbind(0)], -2)


def _by_process(whole: torch.Tensor, size: int) -> torch.Tensor:
    """The inverse of `_in_order`."""
    return torch.stack([part(whole, -2, rank, size) for rank in range(size)])


def attention(
    group: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    causal: bool,
    **options: Any,
) -> torch.Tensor:
    """`scaled_dot_product_attention` of this process's queries `[..., local, features]` to the keys of the whole sequence.

    Args:
        mask: over this process's queries and all keys, `[..., local, total]`.
        causal: tokens see themselves and those before them.
        options: the others of `scaled_dot_product_attention`.
    """
    device = query.device.type
    if torch.is_autocast_enabled(device):  # fewer bytes travel
        query, key, value = (t.to(torch.get_autocast_dtype(device)) for t in (query, key, value))
    whole_key, whole_value = _Whole.apply(key, value, group)
    if not causal:
        return plain_attention(query, whole_key, whole_value, attn_mask=mask, **options)
    from torch.nn.attention.bias import CausalBias, causal_lower_right

    rank, size = dist.get_rank(group), dist.get_world_size(group)
    length = query.shape[-2] // 2
    attended = []
    for queries, chunk in zip(query.chunk(2, -2), chunks_of(rank, size), strict=True):
        seen = (chunk + 1) * length
        bias = causal_lower_right(length, seen)
        # What `scaled_dot_product_attention` would do with this mask, if it were not replaced at present.
        attended.append(
            CausalBias._dispatch(queries, whole_key[..., :seen, :], whole_value[..., :seen, :], bias, **options)
        )
    return torch.cat(attended, -2)
