"""What is written, and whether it is on the disk yet."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path
from typing import IO, Any

from .memory import of_linux

_CAN_WAIT = os.name == "posix"
"""Elsewhere a folder with open files cannot be moved, so that files are written through at once."""
_TO_SYNC = os.O_RDONLY if _CAN_WAIT else os.O_RDWR

_LOCAL = {0xEF53, 0x58465342, 0x9123683E, 0x2FC12FC1, 0xF2F52010, 0x01021994, 0x794C7630}
"""The kinds of ext4, XFS, Btrfs, ZFS, F2FS, tmpfs and overlays, as statfs(2) calls them."""


class Unsynced:
    """Files that are written, and perhaps in the memory of the system only: a killed process cannot harm them, a power cut can.

    They are held open until `sync`, since only so a failing disk is told of for certain.

    Args:
        soon: they have to be on the disk before the checkpoint appears.

    Attributes:
        begin: `sync` follows at once, so that the system had better begin to write to the disk.
    """

    def __init__(self, soon: bool) -> None:
        self.soon = self.begin = soon
        self._files: list[tuple[Path, int]] = []

    def add(self, path: Path, file: IO[Any] | None = None) -> None:
        """Note a file that has been written; `file`: where it is open still.

        Raises:
            OSError: the disk fails.
        """
        self._files.append((path, os.open(path, _TO_SYNC) if file is None else os.dup(file.fileno())))
        if not _CAN_WAIT:
            self.sync()

    def sync(self) -> None:
        """Wait until the files are on the disk.

        Raises:
            OSError: the disk fails; says for which file.
        """
        try:
            for path, handle in self._files:
                try:
                    os.fsync(handle)
                except OSError as error:
                    raise OSError(error.errno, error.strerror or str(error), str(path)) from error
        finally:
            self.close()

    def close(self) -> None:
        """Forget them."""
        for _, handle in self._files:
            os.close(handle)
        self._files.clear()


def is_local(folder: Path) -> bool:
    """Whether files in a folder are on a file system of this machine, which keeps in memory what is written and writes it later."""
    call = of_linux("statfs", ctypes.c_char_p, ctypes.c_void_p)
    found = (ctypes.c_long * 64)()
    return call is not None and call(os.fsencode(folder), found) == 0 and found[0] in _LOCAL


def memory_for_files() -> int:
    """Bytes that can be written at once before Linux holds up who writes, by far: it does so at a fifth of the memory."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 32


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where the system can.

    Raises:
        OSError: the disk fails.
    """
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno in (errno.EIO, errno.ENOSPC):
            raise OSError(error.errno, error.strerror or str(error), str(folder)) from error
    finally:
        os.close(handle)
