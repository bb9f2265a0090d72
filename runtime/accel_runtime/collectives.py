"""Collective operations on nested data. No other module but the strategies talks to `torch.distributed` about data.

A collective over tensors exchanges a short header: how many tensors each process brings, of which types and
shapes. So processes that disagree all get the same error, which names what each of them brought, instead of a hang,
a crash or uninitialised memory. All tensors travel in one message, whatever their number and types: that of the header
where the same has been gathered before, else the next one.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from . import fast_pickle
from .agreement import DistributedOperationException, agree, all_gather_into, all_gather_numbers, check_tensors
from .nested import leaves, map_tensors
from .tensor_bytes import Description, Shape, describe, joined, pack, unpack, width
from .world import World

__all__ = ["DistributedOperationException", "all_gather_into"]


def gather(world: World, data: Any) -> Any:
    """Return `data` with each tensor `[n, ...]` replaced by all processes' tensors, `[size * n, ...]`, in rank order.

    A tensor without dimensions becomes `[size]`. On one process `data` itself is returned.

    Raises:
        TypeError: `data` holds something else than tensors.
        ValueError: the shapes or types differ between processes.
    """
    return _gather(world, data, ragged=False)


def gather_rows(world: World, data: Any) -> Any:
    """Like `gather`, but dimension 0 may differ between processes and may be 0."""
    return _gather(world, data, ragged=True)


def gather_rows_with_spans(world: World, data: Any) -> tuple[Any, list[tuple[int, int]]]:
    """`gather_rows`, and for each tensor the rows `start:stop` of the result that are this process's own."""
    spans: list[tuple[int, int]] = []
    return _gather(world, data, ragged=True, spans=spans), spans


def reduce(world: World, data: Any, reduction: str = "mean", scale: float = 1.0) -> Any:
    """Return `data` with each tensor replaced by its sum, mean, max or min over all processes, times `scale`.

    The mean of integers is a float tensor. "none" leaves the tensors alone. On one process only `scale` applies.

    Raises:
        ValueError: `reduction` is unknown, or the shapes or types differ between processes.
    """
    if reduction not in ("mean", "sum", "max", "min", "none"):
        raise ValueError(f"reduction is {reduction!r}: it must be 'mean', 'sum', 'max', 'min' or 'none'")
    if reduction == "none":
        return data
    if world.size > 1:
        agree(world, "reduce", _tensors("reduce", data), data)
        data = map_tensors(lambda t: _reduced(world, t, reduction), data)
    return data if scale == 1.0 else map_tensors(lambda t: t * scale, data)


def all_reduce(world: World, tensor: torch.Tensor, op: Any = None) -> torch.Tensor:
    """Return the sum (or `op`, a `torch.distributed.ReduceOp`) of `tensor` over all processes, detached.

    One message and no header: for values whose shape is known to agree, such as a loss.
    """
    if world.size == 1:
        return tensor.detach()
    wire = tensor.detach().to(world.wire(tensor.device), copy=True)
    dist.all_reduce(wire, op=op or dist.ReduceOp.SUM, group=world.group)
    return wire.to(tensor.device)


def broadcast(world: World, data: Any, from_process: int = 0) -> Any:
    """Overwrite the tensors of `data` with those of process `from_process`, and return `data`.

    Raises:
        ValueError: the shapes or types differ between processes.
    """
    tensors = list(leaves(data))
    if world.size == 1 or not tensors:
        return data
    agree(world, "broadcast", tensors, data)
    description = describe(tensors)
    packed = pack([t.detach() for t in tensors], world.wire(tensors[0].device), width(description))
    dist.broadcast(packed, group_src=from_process, group=world.group)
    if world.rank != from_process:
        with torch.no_grad():
            for tensor, value in zip(tensors, unpack(packed, description), strict=True):
                tensor.copy_(value)
    return data


def broadcast_object_list(world: World, objects: list[Any], from_process: int = 0) -> list[Any]:
    """Overwrite the entries of the list `objects` (anything that pickles) with those of `from_process`; return it."""
    if world.size > 1:
        dist.broadcast_object_list(objects, group_src=from_process, group=world.group, device=world.wire())
    return objects


class Room:
    """How many bytes the longest message of a series needed, on all processes alike, so that the next ones come in one piece."""

    def __init__(self) -> None:
        self.bytes = 1024


def scatter_object(world: World, objects: list[Any] | None, from_process: int = 0, room: Room | None = None) -> Any:
    """Return this process's entry of the list, one entry per process, which `from_process` gives; others give None.

    Entries are anything that pickles; the memory of CPU tensors in them is copied as it is. The giving process keeps its own as it is.

    Args:
        room: kept from call to call by all processes, where one follows the other.
    """
    if world.size == 1:
        assert objects is not None
        return objects[0]
    room = room or Room()
    messages = [b"" if rank == from_process else fast_pickle.dumps(each) for rank, each in enumerate(objects or ())]
    header = torch.tensor([[len(message), max(map(len, messages))] for message in messages])
    parts = [_message(lengths.view(torch.uint8), message, room.bytes) for lengths, message in zip(header, messages, strict=True)]
    received = _scattered(world, parts, 16 + room.bytes, from_process)
    length, longest = received[:16].view(torch.int64).tolist()
    start = 16
    if longest > room.bytes:
        room.bytes, start = longest + longest // 8, 0
        received = _scattered(world, [_message(received[:0], message, room.bytes) for message in messages], room.bytes, from_process)
    if objects is not None:
        return objects[world.rank]
    return fast_pickle.loads(received[start : start + length])


def _message(head: torch.Tensor, message: bytes | bytearray, room: int) -> torch.Tensor:
    """The bytes of `head` and as many of `message` as there is room for; what follows is left as the memory was."""
    made = torch.empty(len(head) + room, dtype=torch.uint8)
    made[: len(head)] = head
    taken = min(len(message), room)
    if taken:
        made[len(head) : len(head) + taken] = torch.frombuffer(message, dtype=torch.uint8, count=taken)
    return made


def _scattered(world: World, parts: list[torch.Tensor], size: int, from_process: int) -> torch.Tensor:
    device = world.wire()
    received = torch.empty(size, dtype=torch.uint8, device=device)
    dist.scatter(received, [part.to(device) for part in parts] or None, group_src=from_process, group=world.group)
    return received.cpu()


def all_gather_object(world: World, value: Any) -> list[Any]:
    """Return every process's `value` (anything that pickles), in rank order."""
    if world.size == 1:
        return [value]
    values: list[Any] = [None] * world.size
    dist.all_gather_object(values, value, group=world.group)
    return values


def all_gather_number(world: World, number: int) -> list[int]:
    """Return every process's integer, in rank order."""
    return [row[0] for row in all_gather_numbers(world, [number], 1, world.wire())] if world.size > 1 else [number]


def any_process(world: World, flag: bool) -> bool:
    """Whether `flag` is set on any process."""
    return bool(all_reduce(world, torch.tensor(float(flag))).item() > 0)


def gather_object(world: World, values: Any) -> Any:
    """Return one list: all processes' lists joined in rank order. On one process `values` itself is returned."""
    if world.size == 1:
        return values
    return [value for part in all_gather_object(world, values) for value in part]


def pad_across_processes(world: World, data: Any, dim: int = 0, pad_index: float = 0, pad_first: bool = False) -> Any:
    """Return `data` with each tensor padded along `dim` to the longest of all processes.

    Tensors without dimension `dim` are left alone; on one process everything is.

    Args:
        world: the processes.
        data: tensors, nested.
        dim: the dimension that may differ.
        pad_index: the value to pad with.
        pad_first: pad in front instead of behind.

    Raises:
        ValueError: the processes differ in more than the sizes of their tensors.
    """
    if world.size == 1:
        return data
    found = agree(world, "pad_across_processes", list(leaves(data)), data, lambda shape: ()).found
    longest = iter([_longest([rank[i][1] for rank in found], dim) for i in range(len(found[0]))])
    return map_tensors(lambda t: _pad(t, dim, next(longest), pad_index, pad_first), data)


def barrier(world: World) -> None:
    """Wait until every process has come here."""
    if world.size > 1:
        dist.barrier(world.group, device_ids=[world.device.index] if world.device.type == "cuda" else None)


def _gather(world: World, data: Any, ragged: bool, spans: list[tuple[int, int]] | None = None) -> Any:
    if world.size == 1:
        return data
    tensors = [t.detach() if t.ndim else t.detach()[None] for t in _tensors("gather", data)]
    agreed = agree(world, "gather", tensors, data, (lambda shape: shape[1:]) if ragged else None, carried=True)
    if not tensors:
        return data
    if spans is not None:
        for column in zip(*agreed.found, strict=True):
            start = sum(shape[0] for _, shape in column[: world.rank])
            spans.append((start, start + column[world.rank][1][0]))
    rows = _rows(world, tensors, max(map(width, agreed.found))) if agreed.rows is None else agreed.rows
    values = joined(rows, agreed.found[0]) if agreed.alike else _joined_unequal(rows, agreed.found)
    if isinstance(data, torch.Tensor):
        return values[0] if values[0].device == data.device else values[0].to(data.device)
    gathered = (value.to(own.device) for value, own in zip(values, tensors, strict=True))
    return map_tensors(lambda _: next(gathered), data)


def _rows(world: World, tensors: list[torch.Tensor], row: int) -> torch.Tensor:
    """The tensors of all processes as bytes `[processes, row]`."""
    packed = pack(tensors, world.wire(tensors[0].device), row)
    received = packed.new_empty(world.size, row)
    all_gather_into(received.view(-1), packed, group=world.group)
    return received


def _joined_unequal(rows: torch.Tensor, found: list[Description]) -> list[torch.Tensor]:
    by_rank = [unpack(row, description) for row, description in zip(rows, found, strict=True)]
    return [torch.cat(parts) for parts in zip(*by_rank, strict=True)]


def _reduced(world: World, tensor: torch.Tensor, reduction: str) -> torch.Tensor:
    op = {"max": dist.ReduceOp.MAX, "min": dist.ReduceOp.MIN}.get(reduction)
    total = all_reduce(world, tensor.long() if tensor.dtype is torch.bool else tensor, op)
    return total / world.size if reduction == "mean" else total


def _tensors(call: str, data: Any) -> list[torch.Tensor]:
    check_tensors(call, data)
    return [data] if isinstance(data, torch.Tensor) else list(leaves(data))


def _longest(shapes: list[Shape], dim: int) -> int | None:
    lengths = [shape[dim] for shape in shapes if -len(shape) <= dim < len(shape)]
    return max(lengths, default=None)


def _pad(tensor: torch.Tensor, dim: int, length: int | None, value: float, first: bool) -> torch.Tensor:
    if length is None or not -tensor.ndim <= dim < tensor.ndim or tensor.shape[dim] == length:
        return tensor
    shape = list(tensor.shape)
    shape[dim] = length
    padded = tensor.new_full(shape, value)
    padded.narrow(dim, length - tensor.shape[dim] if first else 0, tensor.shape[dim]).copy_(tensor)
    return padded
