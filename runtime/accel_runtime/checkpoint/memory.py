"""The bytes of tensors and files, without copies and without NumPy."""

from __future__ import annotations

import ctypes
import functools
import mmap
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

_PLAIN_TYPES = (torch.Tensor, torch.nn.Parameter)
_WRITE = 2
"""Of sync_file_range: begin to write, and wait for nothing."""


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of a tensor as a one-dimensional uint8 tensor on the host; a view where it can be."""
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    return torch.frombuffer(_memory(plain), dtype=torch.uint8) if plain.numel() else torch.empty(0, dtype=torch.uint8)


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor's elements lie one after the other in the host's memory, as they are."""
    if tensor.device.type != "cpu" or tensor.layout is not torch.strided or type(tensor) not in _PLAIN_TYPES:
        return False
    return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def view_of(data: torch.Tensor) -> memoryview:
    """The memory of a contiguous tensor on the host, for `file.write` and `zlib`; it keeps the tensor alive."""
    return memoryview(_memory(data)).cast("B") if data.numel() else memoryview(b"")


def _memory(data: torch.Tensor) -> Any:
    memory = (ctypes.c_char * (data.numel() * data.element_size())).from_address(data.data_ptr())
    memory.owner = data  # type: ignore[attr-defined]
    return memory


def map_file(path: Path) -> torch.Tensor:
    """The bytes of a file as a uint8 tensor, read from the disk when it is used. What is written to it stays in memory."""
    with open(path, "rb") as file:
        file.seek(0, 2)
        if not file.tell():
            return torch.empty(0, dtype=torch.uint8)
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    return torch.frombuffer(mapped, dtype=torch.uint8)


def allocate(file: Any, size: int) -> None:
    """Let the file system take the room for `size` bytes at once: half the cost of writing is taking it page by page; Linux only.

    Where it cannot, or has not as much, writing will tell.
    """
    call = of_linux("fallocate", ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    if call is not None:
        call(file.fileno(), 0, 0, size)


def begin_writeback(file: Any) -> None:
    """Let the system begin to write to the disk what a file has got, so that less is left for `fsync`; Linux only."""
    call = of_linux("sync_file_range", ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    if call is not None:
        call(file.fileno(), 0, 0, _WRITE)


@functools.cache
def of_linux(name: str, *types: Any) -> Callable[..., int] | None:
    """A function of the C library on 64-bit Linux with arguments of these types; None elsewhere."""
    if sys.platform != "linux" or sys.maxsize < 2**32:
        return None
    call = getattr(ctypes.CDLL(None), name, None)
    if call is not None:
        call.argtypes = list(types)
    return call
