"""Copies of tensors, in memory that is kept from one state to the next: fresh memory costs several times what copying does."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from .capture import Files
from .disk import is_local, memory_for_files
from .memory import is_plain
from .parallel import all_of

_Mark = tuple[Any, ...]


class Copies:
    """Memory on the host for the tensors of a process's files."""

    def __init__(self) -> None:
        self._buffers: dict[_Mark, torch.Tensor] = {}
        self._reserving: threading.Thread | None = None

    def reserve(self, files: Files) -> None:
        """Take the memory that copying the tensors of `files` will need, in a thread of its own."""
        self._wait()
        self.take(self.missing(files))

    def missing(self, files: Files) -> list[_Mark]:
        """What memory copying the tensors of `files` will need beyond what there is."""
        marked = [mark for name, (tensors, _) in files.tensors.items() for mark, _ in _marked(name, tensors)]
        return [mark for mark in marked if mark not in self._buffers]

    def take(self, missing: list[_Mark]) -> None:
        """Take this memory, in a thread of its own."""
        thread = threading.Thread(target=self._take, args=(missing,), name="memory for checkpoints")
        with contextlib.suppress(RuntimeError):  # the process ends
            thread.start()
            self._reserving = thread

    def are_dearer_than_files(self, files: Files, folder: Path, processes: int) -> bool:
        """Whether taking memory for copies would cost more than to write the tensors to files, which the system has in its memory.

        That is so for tensors on the host that have not been copied before, where files are not sent away and the system does not
        begin to hold up who writes. `processes`: how many of this machine write as much.
        """
        self._wait()
        marked = [each for name, (tensors, _) in files.tensors.items() for each in _marked(name, tensors)]
        whole = sum(_size(tensor) for _, tensor in marked)
        missing = sum(_size(tensor) for mark, tensor in marked if mark not in self._buffers)
        if 2 * missing < whole or not all(is_plain(tensor) for _, tensor in marked):
            return False
        return whole * processes <= memory_for_files() and is_local(folder)

    def replace_tensors(self, files: Files, threads: int = 1) -> None:
        """Replace the tensors in `files` by copies, which nothing changes any more, and pickle what is to be pickled."""
        self._wait()
        used: dict[_Mark, torch.Tensor] = {}
        plain: list[Callable[[], None]] = []
        for name, (tensors, metadata) in files.tensors.items():
            copies = {}
            for mark, tensor in _marked(name, tensors):
                buffer = self._buffers.get(mark)
                used[mark] = copies[mark[1]] = _empty(mark) if buffer is None else buffer
                if is_plain(tensor):
                    plain.append(partial(_copy_plain, tensor, used[mark]))
                else:
                    used[mark].copy_(tensor.detach())
            files.tensors[name] = (copies, metadata)
        all_of(plain, threads)
        self._buffers = used
        files.freeze_pickled()

    def _take(self, marks: list[_Mark]) -> None:
        for mark in marks:
            buffer = _empty(mark)
            ctypes.memset(buffer.data_ptr(), 0, _size(buffer))
            self._buffers[mark] = buffer

    def _wait(self) -> None:
        if self._reserving is not None:
            self._reserving.join()
            self._reserving = None


def _marked(name: str, tensors: dict[str, torch.Tensor]) -> list[tuple[_Mark, torch.Tensor]]:
    return [((name, key, tensor.dtype, tuple(tensor.shape)), tensor) for key, tensor in tensors.items()]


def _size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _empty(mark: _Mark) -> torch.Tensor:
    return torch.empty(mark[3], dtype=mark[2])


def _copy_plain(source: torch.Tensor, target: torch.Tensor) -> None:
    """Copy; the C library does it in two thirds of the time of torch's loop, and in any thread."""
    ctypes.memmove(target.data_ptr(), source.data_ptr(), _size(target))
