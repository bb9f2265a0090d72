"""Carry out the steps of a plan: all of them, or none."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from accel_migrate.assistants.manifest import PLACE, Manifest
from accel_migrate.assistants.plan import REMOVE, WRITE, Step, folders_to_make
from accel_migrate.errors import UserError


def apply(root: Path, steps: Sequence[Step], old: Manifest, new: Manifest) -> None:
    """Write and remove; the manifest last. After an error everything is as it was before.

    Raises:
        UserError: a place cannot be written.
    """
    todo = [step for step in steps if step.action in (WRITE, REMOVE)]
    if new.is_empty:
        todo += [Step(REMOVE, PLACE)] if (root / PLACE).exists() else []
        new.folders = []
    else:
        # the folders that the manifest itself needs belong to it
        new.folders = folders_to_make(root, [*steps, Step(WRITE, PLACE)], old)
        todo += [] if _is_there(root, new) else [Step(WRITE, PLACE, content=new.as_bytes())]
    _carry_out(root, todo)
    for folder in sorted({*old.folders, *new.folders}, key=len, reverse=True):
        with contextlib.suppress(OSError):  # what holds anything else stays
            (root / folder).rmdir()


def _is_there(root: Path, manifest: Manifest) -> bool:
    return (root / PLACE).is_file() and (root / PLACE).read_bytes() == manifest.as_bytes()


def _carry_out(root: Path, steps: Sequence[Step]) -> None:
    before = {step.path: (root / step.path).read_bytes() if (root / step.path).is_file() else None for step in steps}
    made: list[Path] = []
    staged: list[tuple[Path, Path]] = []
    done: list[str] = []
    try:
        for step in steps:
            if step.action == WRITE:
                target = Path(os.path.realpath(root / step.path))
                _make_folders(target.parent, made)
                staged.append((_stage(target, step.content), target))
        waiting = iter(staged)
        for step in steps:
            if step.action == WRITE:
                temporary, target = next(waiting)
                os.replace(temporary, target)
            else:
                (root / step.path).unlink()
            done.append(step.path)
    except OSError as error:
        _undo(root, done, before)
        _unlink(temporary for temporary, _ in staged)
        for folder in reversed(made):
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise UserError(f"{error.filename}: {error.strerror}; nothing was changed") from None
    finally:
        _unlink(temporary for temporary, _ in staged)


def _unlink(paths: Iterable[Path]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink()


def _undo(root: Path, done: Sequence[str], before: dict[str, bytes | None]) -> None:
    for path in done:
        content = before[path]
        with contextlib.suppress(OSError):
            if content is None:
                (root / path).unlink()
            else:
                (root / path).write_bytes(content)


def _make_folders(folder: Path, made: list[Path]) -> None:
    """Make the folder and those above it, and add them to `made`, parents first."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir()
        made.append(path)


def _stage(target: Path, content: bytes) -> Path:
    """A finished neighbour of `target`, with its mode; scripts are executable."""
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o755 if content.startswith(b"#!") else 0o644
    os.chmod(name, mode)
    return Path(name)
