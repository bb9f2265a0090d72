"""Checksums at the speed of memory.

64-bit words are added up modulo 2^64 in blocks of 64 KiB; the CRC-32 of the sums and of the last bytes is the checksum. A
changed bit, a block of zeros, and blocks in another order are found; the cost is that of reading the data once.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import torch

from .memory import map_file, view_of

_WORDS = 8192


BLOCK = 8 * _WORDS
"""Bytes; what is added in parts must be cut at multiples of it."""


class Checksum:
    """A checksum of data that comes in parts, of which only the last may be no multiple of `BLOCK` bytes."""

    def __init__(self) -> None:
        self._crc = 0

    def add(self, data: torch.Tensor) -> None:
        """Add a one-dimensional uint8 tensor on the host."""
        size = data.numel()
        whole = size // BLOCK * BLOCK
        if whole:
            sums = data[:whole].view(torch.int64).view(-1, _WORDS).sum(1)
            self._crc = zlib.crc32(view_of(sums), self._crc)
        if size > whole:
            self._crc = zlib.crc32(view_of(data[whole:]), self._crc)

    @property
    def value(self) -> int:
        return self._crc


def checksum(data: torch.Tensor) -> int:
    """The checksum of a one-dimensional uint8 tensor on the host."""
    whole = Checksum()
    whole.add(data)
    return whole.value


def checksum_of_file(path: Path) -> int:
    """The checksum of the bytes of a file."""
    return checksum(map_file(path))
