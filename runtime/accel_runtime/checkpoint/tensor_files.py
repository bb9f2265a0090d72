"""Files of named tensors in the safetensors format (https://huggingface.co/docs/safetensors).

Eight bytes with the length of the header, the header (JSON), the memory of the tensors one after the other. The header's
`__metadata__` also holds the checksum of each tensor, so that whoever reads a part of a file can verify that part.
"""

from __future__ import annotations

import json
import math
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from .checksums import BLOCK, Checksum, checksum
from .disk import Unsynced
from .errors import CheckpointError
from .memory import allocate, begin_writeback, bytes_of, map_file, view_of

_NAMES = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.int16: "I16",
    torch.int32: "I32",
    torch.int64: "I64",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float32: "F32",
    torch.float64: "F64",
    torch.uint16: "U16",
    torch.uint32: "U32",
    torch.uint64: "U64",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.complex64: "C64",
}
_TYPES = {name: dtype for dtype, name in _NAMES.items()}
METADATA = "__metadata__"
"""Of the header's entries the one that is no tensor."""
_MOST_HEADER = 100_000_000
_AT_ONCE = 2**22
"""Bytes; pieces of a file that begin at multiples of it lie in the system's largest pages, which cost least to write and to map."""
_PAGE = 4096
_LARGEST = 2**32 - 1


def storable(dtype: torch.dtype) -> bool:
    """Whether the format has a name for this type."""
    return dtype in _NAMES


def write_tensors(
    path: Path,
    tensors: Mapping[str, torch.Tensor],
    metadata: Mapping[str, str] | None = None,
    unsynced: Unsynced | None = None,
) -> int:
    """Write a file of tensors; returns the checksum of its header, which holds those of the tensors.

    Args:
        path: the file.
        tensors: by name, on any device.
        metadata: for the header.
        unsynced: where to note the file; None: wait until it is on the disk.

    Raises:
        OSError: the file cannot be written.
        ValueError: the format cannot hold a tensor of such a name.
    """
    if METADATA in tensors:
        raise ValueError(f"a tensor has the name {METADATA}, which the safetensors format keeps for itself")
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))
    header: dict[str, Any] = {METADATA: {"format": "pt", **(metadata or {})}}
    at = 0
    for name, tensor in ordered:
        stop = at + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, stop]}
        at = stop
    size = len(_head(header, dict.fromkeys(tensors, _LARGEST)))
    with open(path, "wb", buffering=0) as file:
        if at >= _AT_ONCE:
            size += -size % _PAGE
            allocate(file, size + at)
        file.seek(size)
        begin = unsynced is None or unsynced.begin
        checksums = {name: _write_part(file, bytes_of(tensor), begin) for name, tensor in ordered}
        head = _head(header, checksums, size)
        file.seek(0)
        _write_all(file, memoryview(head))
        if unsynced is None:
            os.fsync(file.fileno())
        else:
            unsynced.add(path, file)
    return zlib.crc32(head)


def _head(header: dict[str, Any], checksums: dict[str, int], size: int = 0) -> bytes:
    """What the file begins with, filled up to a multiple of eight bytes, or to `size`."""
    header[METADATA]["checksums"] = json.dumps(checksums)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (max(size - 8 - len(text), -len(text) % 8))
    return len(text).to_bytes(8, "little") + text


def _write_part(file: Any, part: torch.Tensor, begin: bool) -> int:
    """Write the bytes of a tensor; each is summed up while it is in the processor's cache. Returns the checksum."""
    sums = Checksum()
    written = summed = 0
    while written < part.numel():
        stop = min(written + _AT_ONCE - file.tell() % _AT_ONCE, part.numel())
        whole = min(stop + -stop % BLOCK, part.numel())
        sums.add(part[summed:whole])
        _write_all(file, view_of(part[written:stop]))
        written, summed = stop, whole
        if begin:
            begin_writeback(file)
    return sums.value


def _write_all(file: Any, data: memoryview) -> None:
    at = 0
    while at < len(data):
        at += file.write(data[at:])


class TensorFile:
    """A file of tensors, mapped into memory: what is not used is not read.

    Raises:
        CheckpointError: it is no such file, or damaged.
    """

    def __init__(self, path: Path, expected: int | None = None) -> None:
        self.path = path
        try:
            self._data = map_file(path)
        except OSError as error:
            raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
        head = self._header_bytes()
        if expected is not None and zlib.crc32(head) != expected:
            raise CheckpointError(f"{path} is damaged: its header has another checksum than the manifest says")
        self._start = len(head)
        try:
            header = json.loads(head[8:])
            self.metadata: dict[str, str] = header.pop(METADATA, None) or {}
            self._checksums: dict[str, int] = json.loads(self.metadata.get("checksums", "{}"))
            self.entries = {str(name): self._checked(entry) for name, entry in header.items()}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise CheckpointError(f"{path} is damaged: its header makes no sense ({error})") from error
        self._verified: set[str] = set()

    def _header_bytes(self) -> bytes:
        size = int.from_bytes(bytes(self._data[:8].tolist()), "little") if self._data.numel() >= 8 else -1
        if not 0 < size <= min(_MOST_HEADER, self._data.numel() - 8):
            raise CheckpointError(
                f"{self.path} is damaged or no safetensors file: it has {self._data.numel()} bytes and no whole header"
            )
        return bytes(view_of(self._data[: size + 8]))

    def _checked(self, entry: dict[str, Any]) -> tuple[torch.dtype, tuple[int, ...], int, int]:
        dtype, shape = _TYPES[entry["dtype"]], tuple(map(int, entry["shape"]))
        start, stop = map(int, entry["data_offsets"])
        if min(shape, default=0) < 0 or not 0 <= start <= stop <= self._data.numel() - self._start:
            raise ValueError("a tensor lies outside the file")
        if stop - start != math.prod(shape) * dtype.itemsize:
            raise ValueError("a tensor's bytes do not fit its shape")
        return dtype, shape, start, stop

    def tensor(self, name: str) -> torch.Tensor:
        """The tensor `name`, verified, as a view of the file: to copy from, not to write to.

        Raises:
            CheckpointError: its checksum is another one than when it was written.
        """
        dtype, shape, start, stop = self.entries[name]
        data = self._data[self._start + start : self._start + stop]
        if name not in self._verified and name in self._checksums:
            if checksum(_from_start(data)) != self._checksums[name]:
                raise CheckpointError(
                    f"{self.path} is damaged: tensor {name!r} has another checksum than when it was written"
                )
            self._verified.add(name)
        if not data.numel():
            return torch.empty(shape, dtype=dtype)
        return _from_start(data).view(dtype).view(shape)


def _from_start(data: torch.Tensor) -> torch.Tensor:
    """The same memory with a storage of its own, since a type can be viewed at multiples of its size only."""
    if data.storage_offset() % 16 == 0 or not data.numel():
        return data
    return bytes_of(data)
