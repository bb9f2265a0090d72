"""Whether all processes bring the same to a collective operation: asked in the header of the message that carries the data.

The first message of every operation holds a header (the call, the structure of the data, types and shapes) and room for the
tensors. How much room, all processes know alike from what they have exchanged before: after the same headers as last time the
same tensors are likely to follow. Where they do not fit, the data travels in a message of its own.
"""

from __future__ import annotations

import functools
import weakref
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from .nested import others, skeleton
from .tensor_bytes import Description, Shape, as_numbers, describe, from_numbers, pack, width
from .world import World

_INLINE = 64  # header entries in the first message; more tensors than fit need a second one
_HEAD = 8 * _INLINE  # bytes
_GUESS = 1024  # bytes of room where nothing is known
_LARGEST = 2**22  # bytes of room; beyond it a message of its own costs nothing that counts
_WORTH_PARTS = 2**17  # bytes of tensors
_REMEMBERED = 256

all_gather_into: Callable[..., Any] = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


class DistributedOperationException(ValueError):
    """The processes bring data that does not fit together, or are in different operations."""


class Agreed(NamedTuple):
    """What all processes have said in an operation."""

    found: list[Description]
    """Types and shapes, by rank."""
    rows: torch.Tensor | None
    """The tensors as bytes `[processes, bytes]`, where they came with the header."""
    alike: bool
    """Whether all processes bring the same types and shapes."""


class _Series:
    """The operations of a group of processes so far; the same on all of them, for only what all have received goes in."""

    def __init__(self) -> None:
        self.room = _GUESS
        self._last: tuple[Any, ...] = ()
        self._after: dict[tuple[Any, ...], int] = {}

    def note(self, header: tuple[Any, ...], needed: int) -> None:
        """The operation that `header` stands for would have needed so many bytes of room."""
        if len(self._after) >= _REMEMBERED:
            self._after.clear()
        needed = needed if needed <= _LARGEST else 0
        self._after[self._last] = needed
        self._last = header
        self.room = self._after.get(header, max(needed, _GUESS))


_series: weakref.WeakKeyDictionary[Any, _Series] = weakref.WeakKeyDictionary()


def agree(
    world: World, call: str, tensors: list[torch.Tensor], data: Any, equal: Callable[[Shape], Shape] | None = None, carried: bool = False
) -> Agreed:
    """What each process brings; an error on all of them unless types, dimensions and the `equal` part of the shapes agree.

    Args:
        world: the processes.
        call: the operation.
        tensors: those of `data`, on this process.
        data: with the nesting and the keys that must agree.
        equal: the part of each shape that must agree; None for all of it.
        carried: whether the tensors are to travel to all processes.

    Raises:
        DistributedOperationException: on all processes, with what each of them brings.
    """
    agreed = _exchange(world, call, tensors, data, carried)
    if not agreed.alike:
        _check_shapes(call, agreed.found, equal)
    return agreed


def all_gather_numbers(world: World, numbers: list[int], length: int, device: torch.device) -> list[list[int]]:
    """Every process's integers, in rank order, made up to `length` with zeros."""
    mine = torch.tensor(numbers + [0] * (length - len(numbers)), dtype=torch.int64, device=device)
    everyone = mine.new_empty(world.size * length)
    all_gather_into(everyone, mine, group=world.group)
    return everyone.view(world.size, length).tolist()


def check_tensors(call: str, data: Any) -> None:
    """Refuse what is neither a tensor nor a container.

    Raises:
        TypeError: with the type found.
    """
    strange = None if isinstance(data, torch.Tensor) else next(others(data), None)
    if strange is not None:
        raise TypeError(f"{call} takes tensors, nested in lists, tuples and dictionaries, and got {type(strange).__name__}; use gather_object for other objects")


def _exchange(world: World, call: str, tensors: list[torch.Tensor], data: Any, carried: bool) -> Agreed:
    """All-gather (call, structure, types, shapes), and the tensors where they fit; checks call and structure."""
    series = _series_of(world)
    device = world.wire()
    brought = _brought(call, skeleton(data), describe(tensors), device)
    needed = brought.width if carried else 0
    fits = 0 < needed <= series.room and (tensors[0].device == device or world.wire(tensors[0].device) == device)
    sent = pack(tensors if fits else (), device, series.room)
    numbers, rows = _all_gather_two(world, brought.heads[fits], sent)
    headers: list[list[int]] = numbers.tolist()
    if brought.whole and headers.count(headers[0]) == world.size:
        series.note(brought.entries, needed)
        return Agreed([brought.description] * world.size, rows if fits else None, alike=True)
    found = _parsed(world, call, brought.entries, data, headers)
    series.note(tuple(map(tuple, headers)), max(map(width, found)) if carried else 0)
    return Agreed(found, rows if all(header[1] for header in headers) else None, alike=False)


def _all_gather_two(world: World, head: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Every process's header, as numbers, and row of bytes, in rank order, in one message."""
    if head.device.type == "cpu" and row.numel() >= _WORTH_PARTS:
        return _all_gather_parts(world, head, row)
    received = head.new_empty(world.size * (_HEAD + row.numel()))
    all_gather_into(received, torch.cat((head, row)), group=world.group)
    received = received.view(world.size, -1)
    return received.narrow(1, 0, _HEAD).view(torch.int64), received.narrow(1, _HEAD, row.numel())


def _all_gather_parts(world: World, head: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The same through gloo's own packing, which takes longer to begin and copies less."""
    heads, rows = head.new_empty(world.size * _HEAD), head.new_empty(world.size * row.numel())
    parts = zip(heads.split(_HEAD), rows.split(row.numel()), strict=True)
    (world.group or dist.group.WORLD).allgather_coalesced([list(each) for each in parts], [head, row]).wait()
    return heads.view(torch.int64).view(world.size, -1), rows.view(world.size, -1)


class _Brought(NamedTuple):
    """What the header of an operation is made of."""

    description: Description
    entries: tuple[int, ...]
    width: int
    whole: bool
    """Whether all entries are in the first message."""
    heads: tuple[torch.Tensor, torch.Tensor]
    """The header without the tensors behind it, and with them."""


@functools.lru_cache(maxsize=256)
def _brought(call: str, structure: str, description: Description, device: torch.device) -> _Brought:
    entries = (zlib.crc32(call.encode()), zlib.crc32(structure.encode()), *as_numbers(description))
    inline = (*entries, *[0] * _INLINE)[: _INLINE - 2]
    heads = [torch.tensor([len(entries), carried, *inline], dtype=torch.int64, device=device).view(torch.uint8) for carried in (0, 1)]
    return _Brought(description, entries, width(description), len(entries) <= len(inline), (heads[0], heads[1]))


def _series_of(world: World) -> _Series:
    group = world.group or dist.group.WORLD
    known = _series.get(group)
    if known is None:
        known = _series[group] = _Series()
    return known


def _parsed(world: World, call: str, entries: tuple[int, ...], data: Any, headers: list[list[int]]) -> list[Description]:
    lengths = [header[0] for header in headers]
    longest = max(lengths)
    rows = [header[2:] for header in headers]
    if longest > _INLINE - 2:
        rows = all_gather_numbers(world, list(entries), longest, world.wire())
    _check_same(call, [row[0] for row in rows], "are in different collective operations", call)
    _check_same(call, [row[1] for row in rows], "bring different structures or keys", skeleton(data))
    return [from_numbers(row[2:length]) for row, length in zip(rows, lengths, strict=True)]


def _check_same(call: str, values: list[int], what: str, shown: str) -> None:
    if len(set(values)) > 1:
        groups = [[rank for rank, value in enumerate(values) if value == wanted] for wanted in dict.fromkeys(values)]
        raise DistributedOperationException(
            f"{call}: the processes {what}: ranks {' against '.join(map(str, groups))}; "
            f"every process must make the same calls with the same structure of data, and this one has {shown}"
        )


def _check_shapes(call: str, found: list[Description], equal: Callable[[Shape], Shape] | None) -> None:
    for index, column in enumerate(zip(*found, strict=True)):
        fits = {(dtype, len(shape), equal(shape) if equal else shape) for dtype, shape in column}
        if len(fits) > 1:
            brought = "; ".join(f"process {rank} has {_name(item)}" for rank, item in enumerate(column))
            which = "" if len(found[0]) == 1 else f" of tensor {index}"
            remedy = "pad them with pad_across_processes" if call == "gather" else "bring the same shape and type on every process"
            raise DistributedOperationException(f"{call}: the shapes{which} differ between processes: {brought}; {remedy}")


def _name(item: tuple[torch.dtype, Shape]) -> str:
    return f"{list(item[1])} {str(item[0]).removeprefix('torch.')}"
