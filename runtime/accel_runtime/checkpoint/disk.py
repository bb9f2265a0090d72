"""What is written, and whether it is on the disk yet."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import IO, Any

_CAN_WAIT = os.name == "posix"
"""Elsewhere a folder with open files cannot be moved, so that files are written through at once."""
_TO_SYNC = os.O_RDONLY if _CAN_WAIT else os.O_RDWR


class Unsynced:
    """Files that are written, and perhaps in the memory of the system only: a killed process cannot harm them, a power cut can.

    They are held open until `sync`, since only so a failing disk is told of for certain.

    Args:
        soon: `sync` follows at once, so that the system had better begin to write to the disk.
    """

    def __init__(self, soon: bool) -> None:
        self.soon = soon
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
