"""Collective operations on nested data. No other module but the strategies talks to `torch.distributed` about data.

A collective over tensors exchanges a short header first: how many tensors each process brings, of which types and
shapes. So processes that disagree all get the same error, which names what each of them brought, instead of a hang,
a crash or uninitialised memory. The tensors then travel in one message, whatever their number and types.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from . import fast_pickle
from .nested import leaves, map_tensors, others, skeleton
from .world import World

_INLINE = 64  # header entries in the first message; more tensors than fit need a second one
_ALIGN = 16  # bytes: every element type may be viewed at a multiple of it
_DTYPES = sorted((t for t in vars(torch).values() if isinstance(t, torch.dtype)), key=str)
_DTYPE_CODE = {dtype: code for code, dtype in enumerate(dict.fromkeys(_DTYPES))}
_CODE_DTYPE = {code: dtype for dtype, code in _DTYPE_CODE.items()}

all_gather_into: Callable[..., Any] = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


class DistributedOperationException(ValueError):
    """The processes bring data that does not fit together, or are in different operations."""


Shape = tuple[int, ...]
Description = list[tuple[torch.dtype, Shape]]


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
        _agree(world, "reduce", _tensors("reduce", data), data)
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
    _agree(world, "broadcast", tensors, data)
    wire = world.wire(tensors[0].device)
    packed = _pack(tensors, wire)
    dist.broadcast(packed, group_src=from_process, group=world.group)
    if world.rank != from_process:
        with torch.no_grad():
            for tensor, value in zip(tensors, _unpack(packed, _describe(tensors)), strict=True):
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
    return [row[0] for row in _all_gather_numbers(world, [number], 1, world.wire())] if world.size > 1 else [number]


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
    found = _agree(world, "pad_across_processes", list(leaves(data)), data, lambda shape: ())
    longest = iter([_longest([rank[i][1] for rank in found], dim) for i in range(len(found[0]))])
    return map_tensors(lambda t: _pad(t, dim, next(longest), pad_index, pad_first), data)


def barrier(world: World) -> None:
    """Wait until every process has come here."""
    if world.size > 1:
        dist.barrier(world.group, device_ids=[world.device.index] if world.device.type == "cuda" else None)


def _gather(world: World, data: Any, ragged: bool, spans: list[tuple[int, int]] | None = None) -> Any:
    if world.size == 1:
        return data
    tensors = [t.detach() for t in _tensors("gather", data)]
    tensors = [t if t.ndim else t[None] for t in tensors]
    found = _agree(world, "gather", tensors, data, (lambda shape: shape[1:]) if ragged else None)
    if not tensors:
        return data
    if spans is not None:
        for column in zip(*found, strict=True):
            start = sum(shape[0] for _, shape in column[: world.rank])
            spans.append((start, start + column[world.rank][1][0]))
    widths = [_width(description) for description in found]
    packed = _pack(tensors, world.wire(tensors[0].device), max(widths))
    received = packed.new_empty(world.size * packed.numel())
    all_gather_into(received, packed, group=world.group)
    gathered = iter(_joined(received.view(world.size, -1), found, tensors))
    return map_tensors(lambda _: next(gathered), data)


def _joined(received: torch.Tensor, found: list[Description], mine: list[torch.Tensor]) -> list[torch.Tensor]:
    """The rows of each tensor over all processes, on the device where this process had its own."""
    dtype, shape = found[0][0]
    if len(mine) == 1 and received.shape[1] == _bytes(dtype, shape) > 0 and all(each == found[0] for each in found):
        return [received.view(dtype).view(-1, *shape[1:]).to(mine[0].device)]  # as it came, no copy
    by_rank = [_unpack(part, description) for part, description in zip(received, found, strict=True)]
    return [torch.cat(parts).to(own.device) for own, *parts in zip(mine, *by_rank, strict=True)]


def _reduced(world: World, tensor: torch.Tensor, reduction: str) -> torch.Tensor:
    op = {"max": dist.ReduceOp.MAX, "min": dist.ReduceOp.MIN}.get(reduction)
    total = all_reduce(world, tensor.long() if tensor.dtype is torch.bool else tensor, op)
    return total / world.size if reduction == "mean" else total


def _tensors(call: str, data: Any) -> list[torch.Tensor]:
    strange = next(others(data), None)
    if strange is not None:
        raise TypeError(f"{call} takes tensors, nested in lists, tuples and dictionaries, and got {type(strange).__name__}; use gather_object for other objects")
    return list(leaves(data))


def _agree(
    world: World, call: str, tensors: list[torch.Tensor], data: Any, equal: Callable[[Shape], Shape] | None = None
) -> list[Description]:
    """What each process brings; an error on all of them unless types, dimensions and the `equal` part of the shapes agree."""
    found = _exchange(world, call, tensors, data)
    for index, column in enumerate(zip(*found, strict=True)):
        fits = {(dtype, len(shape), equal(shape) if equal else shape) for dtype, shape in column}
        if len(fits) > 1:
            brought = "; ".join(f"process {rank} has {_name(item)}" for rank, item in enumerate(column))
            which = "" if len(found[0]) == 1 else f" of tensor {index}"
            remedy = "pad them with pad_across_processes" if call == "gather" else "bring the same shape and type on every process"
            raise DistributedOperationException(f"{call}: the shapes{which} differ between processes: {brought}; {remedy}")
    return found


def _exchange(world: World, call: str, tensors: list[torch.Tensor], data: Any) -> list[Description]:
    """All-gather (call, structure, types, shapes); checks call and structure."""
    entries = [zlib.crc32(call.encode()), zlib.crc32(skeleton(data).encode())]
    for dtype, shape in _describe(tensors):
        entries += [_DTYPE_CODE[dtype], len(shape), *shape]
    device = world.wire()
    first = _all_gather_numbers(world, [len(entries), *entries[: _INLINE - 1]], _INLINE, device)
    longest = max(row[0] for row in first)
    rows = [row[1:] for row in first] if longest < _INLINE else _all_gather_numbers(world, entries, longest, device)
    _check_same(call, [row[0] for row in rows], "are in different collective operations", call)
    _check_same(call, [row[1] for row in rows], "bring different structures or keys", skeleton(data))
    return [_parse(row[2 : first[rank][0]]) for rank, row in enumerate(rows)]


def _all_gather_numbers(world: World, numbers: list[int], width: int, device: torch.device) -> list[list[int]]:
    mine = torch.tensor(numbers + [0] * (width - len(numbers)), dtype=torch.int64, device=device)
    everyone = mine.new_empty(world.size * width)
    all_gather_into(everyone, mine, group=world.group)
    return everyone.view(world.size, width).tolist()


def _check_same(call: str, values: list[int], what: str, shown: str) -> None:
    if len(set(values)) > 1:
        groups = [[rank for rank, value in enumerate(values) if value == wanted] for wanted in dict.fromkeys(values)]
        raise DistributedOperationException(
            f"{call}: the processes {what}: ranks {' against '.join(map(str, groups))}; "
            f"every process must make the same calls with the same structure of data, and this one has {shown}"
        )


def _describe(tensors: list[torch.Tensor]) -> Description:
    return [(t.dtype, tuple(t.shape)) for t in tensors]


def _parse(numbers: list[int]) -> Description:
    found: Description = []
    at = 0
    while at < len(numbers):
        code, ndim = numbers[at], numbers[at + 1]
        found.append((_CODE_DTYPE[code], tuple(numbers[at + 2 : at + 2 + ndim])))
        at += 2 + ndim
    return found


def _name(item: tuple[torch.dtype, Shape]) -> str:
    return f"{list(item[1])} {str(item[0]).removeprefix('torch.')}"


def _bytes(dtype: torch.dtype, shape: Shape) -> int:
    count = dtype.itemsize
    for length in shape:
        count *= length
    return count


def _padded(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


def _width(description: Description) -> int:
    return sum(_padded(_bytes(dtype, shape)) for dtype, shape in description)


def _pack(tensors: list[torch.Tensor], device: torch.device, width: int | None = None) -> torch.Tensor:
    """All tensors as one row of bytes, each beginning at a multiple of `_ALIGN`; `width` bytes long."""
    width = _width(_describe(tensors)) if width is None else width
    if len(tensors) == 1 and tensors[0].numel() * tensors[0].element_size() == width:
        return _as_bytes(tensors[0]).to(device)
    packed = torch.zeros(width, dtype=torch.uint8, device=device)
    at = 0
    for tensor in tensors:
        raw = _as_bytes(tensor)
        packed[at : at + raw.numel()].copy_(raw)
        at += _padded(raw.numel())
    return packed


def _unpack(packed: torch.Tensor, description: Description) -> list[torch.Tensor]:
    values = []
    at = 0
    for dtype, shape in description:
        size = _bytes(dtype, shape)
        raw = packed[at : at + size].clone()  # a view's storage offset need not fit the element type
        values.append(raw.view(dtype).view(shape) if size else raw.new_empty(shape, dtype=dtype))
        at += _padded(size)
    return values


def _as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.detach().contiguous().reshape(-1)
    if flat.numel() < 2:
        flat = flat.clone(memory_format=torch.contiguous_format)  # one element or none may have any stride
    return flat.view(torch.uint8)


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
