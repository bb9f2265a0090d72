"""Write files back: atomically, with the encoding, line ends and mode which they had."""

from __future__ import annotations

import codecs
import contextlib
import os
import stat
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from accel_migrate.errors import UserError
from accel_migrate.source import Source


@dataclass(frozen=True)
class _Staged:
    """A finished temporary file, and what it is to replace."""

    temporary: Path
    target: Path


def write_atomically(path: Path, text: str, source: Source) -> None:
    """Write `text` (with `\\n` line ends) to `path`, stored as `source` was: encoding, byte order mark, line ends, mode.

    A symbolic link stays one: the file it leads to is replaced. Either the whole new file is there or the old one.

    Raises:
        UserError: the place is read-only or full, the file has changed since it was read, or a character of `text`
            does not exist in the file's encoding.
    """
    write_all([(path, text, source)])


def write_all(files: Iterable[tuple[Path, str, Source]]) -> None:
    """`write_atomically` for several files: none is replaced before all of them are safely on the disk."""
    staged: list[_Staged] = []
    try:
        for path, text, source in files:
            staged.append(_stage(path, text, source))
        _commit(staged)
    finally:
        for item in staged:
            with contextlib.suppress(OSError):
                item.temporary.unlink()


def encode(text: str, source: Source) -> bytes:
    """The bytes of `text` stored as `source` is; lines that `source` has too keep their own line end."""
    if source.notebook is not None:
        return source.notebook.encode(text)
    if source.line_ends:
        stored = _with_line_ends(text, source)
    else:
        stored = text if source.newline == "\n" else text.replace("\n", source.newline)
    try:
        body = stored.encode(source.encoding)
    except UnicodeEncodeError as error:
        character = error.object[error.start]
        raise UserError(f"{source.path}: {character!r} does not exist in its encoding {source.encoding!r}") from None
    return codecs.BOM_UTF8 + body if source.bom else body


def _with_line_ends(text: str, source: Source) -> str:
    old, new = source.text.split("\n"), text.split("\n")
    ends = [source.newline] * len(new)
    old_ends = [*source.line_ends, source.newline]
    for i, j, size in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
        ends[j : j + size] = old_ends[i : i + size]
    return "".join(line + end for line, end in zip(new[:-1], ends, strict=False)) + new[-1]


def _stage(path: Path, text: str, source: Source) -> _Staged:
    data = encode(text, source)
    target = Path(os.path.realpath(path))
    try:
        if target.exists():
            _check_replaceable(path, target, source)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = _write_temporary(target, data, source.path)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}; nothing was changed") from None
    return _Staged(temporary, target)


def _check_replaceable(path: Path, target: Path, source: Source) -> None:
    if not target.is_file():
        raise UserError(f"{path}: is not a regular file, so it is not overwritten")
    if not _mode(target) & 0o222 or not os.access(target, os.W_OK):
        raise UserError(f"{path}: is read-only; nothing was changed (make it writable, or use --output DIR)")
    if _same_file(target, source.path) and target.read_bytes() != encode(source.text, source):
        raise UserError(f"{path}: has changed on disk since it was read; nothing was changed, run again")


def _same_file(target: Path, other: Path) -> bool:
    try:
        return os.path.samefile(target, other)
    except OSError:
        return False


def _write_temporary(target: Path, data: bytes, origin: Path) -> Path:
    """A complete, synced neighbour of `target` with the mode and owner of `target`, or with the mode of `origin`."""
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if target.exists():
            _copy_owner(target, temporary)
        temporary.chmod(_mode(target) if target.exists() else _mode(origin) | stat.S_IWUSR)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _copy_owner(origin: Path, copy: Path) -> None:
    """Keep the owner where the user may give files away."""
    if hasattr(os, "chown"):
        status = origin.stat()
        with contextlib.suppress(PermissionError):
            os.chown(copy, status.st_uid, status.st_gid)


def _commit(staged: list[_Staged]) -> None:
    done: list[str] = []
    for item in staged:
        try:
            os.replace(item.temporary, item.target)
        except OSError as error:
            so_far = f"already written: {', '.join(done)}" if done else "nothing was changed"
            raise UserError(f"{item.target}: cannot be replaced: {error.strerror or error}; {so_far}") from None
        done.append(str(item.target))
