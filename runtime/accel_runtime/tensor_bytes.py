"""Tensors of any types as one row of bytes, and back; types and shapes as numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

_ALIGN = 16  # bytes: every element type may be viewed at a multiple of it
_DTYPES = sorted((t for t in vars(torch).values() if isinstance(t, torch.dtype)), key=str)
_DTYPE_CODE = {dtype: code for code, dtype in enumerate(dict.fromkeys(_DTYPES))}
_CODE_DTYPE = {code: dtype for dtype, code in _DTYPE_CODE.items()}

Shape = tuple[int, ...]
Description = tuple[tuple[torch.dtype, Shape], ...]


def describe(tensors: list[torch.Tensor]) -> Description:
    """The type and the shape of each tensor."""
    return tuple([(t.dtype, t.shape) for t in tensors])


def as_numbers(description: Description) -> list[int]:
    """A description for the wire: for each tensor the type, the number of dimensions, and these."""
    numbers = []
    for dtype, shape in description:
        numbers += [_DTYPE_CODE[dtype], len(shape), *shape]
    return numbers


def from_numbers(numbers: list[int]) -> Description:
    """The inverse of `as_numbers`."""
    found = []
    at = 0
    while at < len(numbers):
        code, ndim = numbers[at], numbers[at + 1]
        found.append((_CODE_DTYPE[code], tuple(numbers[at + 2 : at + 2 + ndim])))
        at += 2 + ndim
    return tuple(found)


def width(description: Description) -> int:
    """How many bytes `pack` needs."""
    return sum(_padded(_bytes(dtype, shape)) for dtype, shape in description)


def pack(tensors: Sequence[torch.Tensor], device: torch.device, row: int) -> torch.Tensor:
    """The tensors as `row` bytes on `device`, each beginning at a multiple of the alignment; the rest is as the memory was.

    A single tensor of so many bytes is not copied.
    """
    parts = []
    for tensor in tensors:
        raw = _as_bytes(tensor)
        parts.append(raw if raw.device == device else raw.to(device))
        size = raw.numel()
        if size == row:
            break
        row -= size
        gap = min(-size % _ALIGN, row)
        if gap:
            parts.append(torch.empty(gap, dtype=torch.uint8, device=device))
            row -= gap
    else:
        if row or not parts:
            parts.append(torch.empty(row, dtype=torch.uint8, device=device))
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def unpack(packed: torch.Tensor, description: Description) -> list[torch.Tensor]:
    """The tensors in a row of bytes, in memory of their own."""
    values = []
    at = 0
    for dtype, shape in description:
        size = _bytes(dtype, shape)
        raw = packed[at : at + size].clone()  # a view's storage offset need not fit the element type
        values.append(raw.view(dtype).view(shape) if size else raw.new_empty(shape, dtype=dtype))
        at += _padded(size)
    return values


def joined(rows: torch.Tensor, description: Description) -> list[torch.Tensor]:
    """The tensors of all `rows` of bytes `[processes, bytes]`, joined along dimension 0; each row holds as `description` says."""
    values = []
    at = 0
    for dtype, shape in description:
        size = _bytes(dtype, shape)
        if size:
            part = rows if size == rows.shape[1] else rows.narrow(1, at, size)
            raw = part.reshape(-1)  # copies, unless this is all there is in the memory
            values.append(raw.view(dtype).view(-1, *shape[1:]))
        else:
            values.append(rows.new_empty((shape[0] * len(rows), *shape[1:]), dtype=dtype))
        at += _padded(size)
    return values


def _bytes(dtype: torch.dtype, shape: Shape) -> int:
    return dtype.itemsize * math.prod(shape)


def _padded(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


def _as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.reshape(-1)
    if flat.numel() < 2 or not flat.is_contiguous():
        flat = flat.clone(memory_format=torch.contiguous_format)  # one element or none may have any stride
    return flat.view(torch.uint8)
