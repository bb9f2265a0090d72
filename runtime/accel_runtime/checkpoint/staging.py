"""How a checkpoint comes into being: written beside its place, under a hidden name, and moved there when it is complete.

The move is one system call. Where something stands there already (a checkpoint saved earlier under the same name, a folder
that the script made), the two are exchanged, and files of the old one that belong to no checkpoint are taken along.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import secrets
import shutil
import time
from pathlib import Path, PurePosixPath
from typing import IO, Any

from .manifest import NAME, read_manifest

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_WORK, _OLD, _BEGUN, _GONE = ".saving-", ".replaced-", ".begun-", ".removed-"
_LOCK = ".lock"
_LONG = 3600.0
_EXCHANGE = 2
_HERE = -100


class Staging:
    """A hidden folder beside `target` in which a checkpoint is written.

    Attributes:
        path: the folder.
    """

    def __init__(self, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        _clear_left_over(target.parent)
        self.target = target
        number = secrets.token_hex(6)
        self.path = target.parent / f".{target.name}{_WORK}{number}"
        begun = target.parent / f".{target.name}{_BEGUN}{number}"
        begun.mkdir()
        try:
            self._lock: IO[Any] | None = open(begun / _LOCK, "w")  # noqa: SIM115
            _try_lock(self._lock)  # before others can take it for one that nobody holds
            os.rename(begun, self.path)
        except OSError:
            shutil.rmtree(begun, ignore_errors=True)
            raise

    def move_to(self, target: Path, fresh: bool) -> bool:
        """Make what was written the checkpoint `target`; whether that succeeded.

        `fresh`: only if nothing is there. Otherwise what is there is replaced.
        """
        try:
            os.rename(self.path, target)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            if fresh:
                return False
            self._replace(target)
        self._unlock(target)
        return True

    def discard(self) -> None:
        """Remove what was written."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._unlock(self.path)

    def _replace(self, target: Path) -> None:
        _take_along(target, self.path)
        if _exchange(self.path, target):
            _remove_as(target.name, self.path)
            return
        old = target.parent / f".{target.name}{_OLD}{secrets.token_hex(6)}"
        os.rename(target, old)
        os.rename(self.path, target)
        shutil.rmtree(old, ignore_errors=True)

    def _unlock(self, place: Path) -> None:
        (place / _LOCK).unlink(missing_ok=True)
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def recover(target: Path) -> None:
    """Bring back a checkpoint of which a kill has left only the hidden halves of an exchange."""
    if target.exists() or not target.parent.is_dir():
        return
    for mark in (_WORK, _OLD):
        for left in sorted(target.parent.glob(f".{target.name}{mark}*")):
            if (left / NAME).exists() and any(target.parent.glob(f".{target.name}{_OLD}*")):
                with contextlib.suppress(OSError):
                    os.rename(left, target)
                    return


def remove(folder: Path) -> None:
    """Remove a checkpoint: it is gone at once, its files a little later."""
    _remove_as(folder.name, folder)


def _remove_as(name: str, folder: Path) -> None:
    """Remove what was the checkpoint `name`: under a name by which the next saver knows what a kill has left of it."""
    hidden = folder.parent / f".{name}{_GONE}{secrets.token_hex(6)}"
    try:
        os.rename(folder, hidden)
    except OSError:
        return
    shutil.rmtree(hidden, ignore_errors=True)


def _take_along(old: Path, new: Path) -> None:
    """Put what of `old` belongs to no checkpoint into `new` too, where there is nothing of that name: files as links, of any name."""
    belonging = {NAME, f".{NAME}", _LOCK}
    if (old / NAME).exists():
        belonging |= set(read_manifest(old).files)
    _take_folder(old, new, PurePosixPath(), belonging)


def _take_folder(old: Path, new: Path, folder: PurePosixPath, belonging: set[str]) -> None:
    for entry in os.scandir(old / folder):
        name = folder / entry.name
        if str(name) in belonging:
            continue
        if entry.is_dir(follow_symlinks=False):
            if not os.listdir(entry):
                (new / name).mkdir(parents=True, exist_ok=True)
            elif (new / name).is_dir() or not os.path.lexists(new / name):
                _take_folder(old, new, name, belonging)
        elif not os.path.lexists(new / name):
            (new / name).parent.mkdir(parents=True, exist_ok=True)
            _take_file(old / name, new / name)


def _take_file(old: Path, new: Path) -> None:
    if old.is_symlink():
        os.symlink(os.readlink(old), new)
        return
    try:
        os.link(old, new)
    except OSError:
        shutil.copy2(old, new)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two names in one step, where the system and the file system can."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if os.name == "posix" else None
    return call is not None and call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0


def _clear_left_over(parent: Path) -> None:
    """Remove what killed savers have left: removed checkpoints, and folders whose lock nobody holds, or that have had none for long."""
    for left in (path for mark in (_WORK, _OLD, _BEGUN, _GONE) for path in parent.glob(f".*{mark}*")):
        if _is_left_over(left):
            shutil.rmtree(left, ignore_errors=True)


def _is_left_over(folder: Path) -> bool:
    if not (parts := re.fullmatch(rf"\.(.+)({_WORK}|{_OLD}|{_BEGUN}|{_GONE})[0-9a-f]{{12}}", folder.name)):
        return False
    if parts[2] == _GONE:
        return True
    if parts[2] == _OLD:
        return (folder.parent / parts[1]).exists()
    if parts[2] == _BEGUN:
        return _is_old(folder)
    try:
        with open(folder / _LOCK) as file:
            return _try_lock(file)
    except FileNotFoundError:
        return _is_old(folder)
    except OSError:
        return False


def _is_old(folder: Path) -> bool:
    try:
        return time.time() - folder.stat().st_mtime > _LONG
    except OSError:  # it has been moved meanwhile
        return False


def _try_lock(file: IO[Any]) -> bool:
    """Hold the lock of a file for as long as it is open; whether nobody else did."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
