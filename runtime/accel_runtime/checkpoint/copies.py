"""Copies of tensors, in memory that is kept from one state to the next: fresh memory costs several times what copying does."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import torch

from .capture import Files

_Mark = tuple[Any, ...]


class Copies:
    """Memory on the host for the tensors of a process's files."""

    def __init__(self) -> None:
        self._buffers: dict[_Mark, torch.Tensor] = {}
        self._reserving: threading.Thread | None = None

    def reserve(self, files: Files) -> None:
        """Take the memory that copying the tensors of `files` will need, in a thread of its own."""
        self._wait()
        wanted = {
            mark: tensor for name, (tensors, _) in files.tensors.items() for mark, tensor in _marked(name, tensors)
        }
        missing = [mark for mark in wanted if mark not in self._buffers]
        self._reserving = threading.Thread(target=self._reserve, args=(missing,), name="memory for checkpoints")
        self._reserving.start()

    def replace_tensors(self, files: Files) -> None:
        """Replace the tensors in `files` by copies, which nothing changes any more, and pickle what is to be pickled."""
        self._wait()
        used: dict[_Mark, torch.Tensor] = {}
        for name, (tensors, metadata) in files.tensors.items():
            copies = {}
            for mark, tensor in _marked(name, tensors):
                buffer = self._buffers.get(mark)
                used[mark] = copies[mark[1]] = _empty(mark) if buffer is None else buffer
                _copy(tensor.detach(), copies[mark[1]])
            files.tensors[name] = (copies, metadata)
        self._buffers = used
        files.freeze_pickled()

    def _reserve(self, marks: list[_Mark]) -> None:
        for mark in marks:
            buffer = _empty(mark)
            ctypes.memset(buffer.data_ptr(), 0, buffer.numel() * buffer.element_size())
            self._buffers[mark] = buffer

    def _wait(self) -> None:
        if self._reserving is not None:
            self._reserving.join()
            self._reserving = None


def _marked(name: str, tensors: dict[str, torch.Tensor]) -> list[tuple[_Mark, torch.Tensor]]:
    return [((name, key, tensor.dtype, tuple(tensor.shape)), tensor) for key, tensor in tensors.items()]


def _empty(mark: _Mark) -> torch.Tensor:
    return torch.empty(mark[3], dtype=mark[2])


def _copy(source: torch.Tensor, target: torch.Tensor) -> None:
    """Copy; on one thread the C library does it in two thirds of the time of torch's loop."""
    plain = source.device.type == "cpu" and source.layout is torch.strided and source.is_contiguous()
    if plain and not source.is_conj() and not source.is_neg() and torch.get_num_threads() == 1:
        ctypes.memmove(target.data_ptr(), source.data_ptr(), target.numel() * target.element_size())
    else:
        target.copy_(source)
