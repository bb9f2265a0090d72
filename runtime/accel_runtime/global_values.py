"""What this process's part counts in the whole: weights of losses, global means, sums, lengths and metrics."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import torch

from . import collectives
from .batches import Share, Tracker
from .nested import find_batch_size, leaves, map_tensors
from .world import World


@dataclass(frozen=True)
class Weight:
    """The scale of a loss whose denominator the user gave."""

    scale: float


def scale_of(world: World, tracker: Tracker, value: Any, weight: Any = None) -> Share | Weight | None:
    """What the mean `value` of this process counts in the mean over processes; None where all count the same.

    `weight` is the number of samples (tokens, sum of class weights) over which `value` is a mean on this process.
    """
    tensor = value if isinstance(value, torch.Tensor) else None
    if weight is None:
        return tracker.share_of(tensor)
    local = 0.0 if tracker.borrowed(tensor) else float(weight)
    total = float(collectives.all_reduce(world, torch.tensor(local, dtype=torch.float32 if world.device.type == "mps" else torch.float64, device=world.wire())))
    return Weight(local * world.size / total if total else 1.0)


def global_mean(world: World, tracker: Tracker, value: Any, weight: Any = None) -> Any:
    """The mean over the global batch of a mean over this process's rows: detached, of the same type; one scalar reduction."""
    if world.size == 1:
        return _detached(value)
    counted = scale_of(world, tracker, value, weight)
    return _summed(world, value, (1.0 if counted is None else counted.scale) / world.size)


def global_sum(world: World, tracker: Tracker, value: Any) -> Any:
    """The sum over processes of a sum over this process's rows; borrowed rows count zero."""
    if world.size == 1:
        return _detached(value)
    return _summed(world, value, 0.0 if tracker.borrowed(value if isinstance(value, torch.Tensor) else None) else 1.0, whole=True)


def global_len(world: World, tracker: Tracker, value: Any) -> int:
    """The number of rows of which `value` has this process's part.

    Of the batch's own tensors, views of them and lists, and of a number (of samples of the batch in progress, or a
    multiple), it is known without communication. Anything else may be joined, chosen or made: all processes exchange how
    many rows they have, and so they do where the loader has a `collate_fn` of its own.

    Raises:
        ValueError: a number which is no multiple of this process's samples, or a view of some rows of the batch which may
            be all of them on another process.
    """
    rows = rows_of(value)
    if world.size == 1:
        return rows
    if isinstance(value, int) and tracker.by_sample:
        return _scaled_number(world, tracker, value)
    tensor = value if isinstance(value, torch.Tensor) else next((leaf for leaf in leaves(value) if leaf.ndim), None)
    share = None if isinstance(value, int) else tracker.holding(value if tensor is None else tensor)
    if share is not None:
        return share.total
    everyone = collectives.all_gather_number(world, rows)
    return sum(everyone) - _borrowed_rows(everyone, tracker.latest(tensor), tracker.run.totals if tracker.run is not None else [])


def rows_of(value: Any) -> int:
    """The rows of a tensor, a list or a nested batch; a number is itself."""
    if isinstance(value, int):
        return value
    if isinstance(value, torch.Tensor) or next(leaves(value), None) is None:
        return len(value)
    return find_batch_size(value) or 0


def _scaled_number(world: World, tracker: Tracker, number: int) -> int:
    share = tracker.sized(number) or (tracker.run.share if tracker.run is not None else None)
    if share is None:
        return number * world.size
    if number % share.local:
        raise ValueError(
            f"global_len was given the number {number}, and this process has {share.local} of the {share.total} samples of the batch: "
            "give it the rows themselves (a tensor or a list), or add up numbers with global_sum"
        )
    return number // share.local * share.total


def _borrowed_rows(everyone: list[int], latest: Share | None, totals: list[int]) -> int:
    """How many of the rows, of which there are `everyone[rank]` on each process, are borrowed ones.

    They may belong to the batch `latest`, any number per sample or a choice of its rows, or be joined from the batches
    delivered last, of `totals` samples; best of all from the whole pass.
    """
    count, joined = _joined_from(everyone, totals)
    if count and count == len(totals):
        return joined
    if latest is not None and latest.total < latest.size and (len(set(everyone)) == 1 or max(everyone) <= 1):
        return sum(everyone[latest.total :])
    return joined


def _joined_from(everyone: list[int], totals: list[int]) -> tuple[int, int]:
    """From how many of the last batches so many rows are joined (0: from no number of them), and how many are borrowed."""
    size = len(everyone)
    rows, borrowed = [0] * size, 0
    for count, total in enumerate(reversed(totals), 1):
        parts = [Share.of(total, size, rank) for rank in range(size)]
        rows = [sum(pair) for pair in zip(rows, (part.local for part in parts), strict=True)]
        borrowed += sum(part.borrowed for part in parts)
        if rows == everyone:
            return count, borrowed
        if rows[0] > everyone[0]:
            break
    return 0, 0


def gather_batch(world: World, tracker: Tracker, data: Any, objects: bool) -> Any:
    """The rows of all processes in the order of the original, each once.

    In a loop over a loader `data` holds the results for one batch, with any number of rows per sample. After the loop it
    may hold the concatenated results for all batches.
    """
    if world.size == 1:
        return data
    run = tracker.run
    rows = len(data) if objects and isinstance(data, list) else find_batch_size(data)
    if run is not None and run.exhausted and rows is not None and rows == sum(Share.of(t, world.size, world.rank).local for t in run.totals):
        return _in_original_order(world, data, run.totals, objects)
    if tracker.borrows(rows, next(leaves(data), None)):
        data = data[:0] if objects else map_tensors(no_rows, data)
    return (collectives.gather_object if objects else collectives.gather_rows)(world, data)


def _in_original_order(world: World, data: Any, totals: list[int], objects: bool) -> Any:
    gathered = (collectives.gather_object if objects else collectives.gather_rows)(world, data)
    order = torch.tensor(original_order(totals, world.size), dtype=torch.long)
    if objects:
        return [gathered[i] for i in order.tolist()]
    return map_tensors(lambda t: t[order.to(t.device)] if t.ndim else t, gathered)


def original_order(totals: list[int], size: int) -> list[int]:
    """Where the rows of batches of `totals` samples stand among the rows of process 0, then 1, ..., borrowed ones left out."""
    shares = [[Share.of(total, size, rank) for total in totals] for rank in range(size)]
    starts = list(itertools.accumulate((sum(share.local for share in row) for row in shares), initial=0))
    order = []
    for batch in range(len(totals)):
        for rank in range(size):
            share = shares[rank][batch]
            order += [] if share.borrowed else range(starts[rank], starts[rank] + share.local)
            starts[rank] += share.local
    return order


def no_rows(tensor: torch.Tensor) -> torch.Tensor:
    return (tensor if tensor.ndim else tensor[None])[:0]


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value


def _summed(world: World, value: Any, factor: float, whole: bool = False) -> Any:
    """Sum over processes of `factor * value`; a factor of zero silences NaN.

    `whole` says that the factor is 0 or 1 on every process. Then integers stay integers: what is sent must have one type
    on all of them, whatever their factors.
    """
    if not isinstance(value, torch.Tensor):
        total = collectives.all_reduce(world, torch.tensor(factor * value if factor else 0.0, device=world.wire()).double())
        return type(value)(total.item())
    wide = value.detach()
    narrow = wide.dtype in (torch.float16, torch.bfloat16)
    if narrow or not (whole or wide.is_floating_point() or wide.is_complex()):
        wide = wide.float()
    elif wide.dtype == torch.bool:
        wide = wide.long()
    wide = (wide if factor == 1.0 else wide * factor) if factor else torch.zeros_like(wide)
    if whole:
        wide = wide.to(value.dtype if not narrow and value.dtype != torch.bool else wide.dtype)
    total = collectives.all_reduce(world, wide)
    return total if value.dtype == torch.bool else total.to(value.dtype)
