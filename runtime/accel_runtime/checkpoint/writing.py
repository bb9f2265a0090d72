"""Writing the files of a checkpoint, and agreeing with the other processes whether all of them have."""

from __future__ import annotations

import contextlib
import json
import os
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from ..collectives import all_gather_object, broadcast_object_list
from ..world import World
from .capture import Files
from .checksums import checksum_of_file
from .disk import Unsynced
from .errors import CheckpointError
from .manifest import File
from .memory import is_plain
from .parallel import all_of
from .tensor_files import write_tensors

T = TypeVar("T")


def write_files(folder: Path, files: Files, unsynced: Unsynced, threads: int = 1) -> dict[str, File]:
    """Write the files of one process, noted as `unsynced`; what the manifest must say of them."""
    on_host = all(is_plain(tensor) for tensors, _ in files.tensors.values() for tensor in tensors.values())
    works = [partial(_write_tensors, folder / name, *file, unsynced) for name, file in files.tensors.items()]
    written = dict(zip(files.tensors, all_of(works, threads if on_host else 1), strict=True))
    for name, content in files.json.items():
        with naming(folder / name):
            (folder / name).write_text(json.dumps(content), encoding="utf-8")
            written[name] = _closed(folder / name, unsynced)
    for name, value in files.pickled.items():
        with naming(folder / name):
            if isinstance(value, memoryview):
                (folder / name).write_bytes(value)
            else:
                torch.save(value, folder / name)
            written[name] = _closed(folder / name, unsynced)
    return written


def _write_tensors(path: Path, tensors: dict[str, torch.Tensor], metadata: dict[str, str], unsynced: Unsynced) -> File:
    with naming(path):
        header = write_tensors(path, tensors, metadata, unsynced)
    return File(path.stat().st_size, header, of_header=True)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let errors of writing say which file they are about."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    except RuntimeError as error:  # of torch.save, when a disk is full
        raise CheckpointError(f"{path} could not be written: {str(error).splitlines()[0]}") from error


def _closed(path: Path, unsynced: Unsynced) -> File:
    unsynced.add(path)
    return File(path.stat().st_size, checksum_of_file(path))


def message_of(error: BaseException) -> str:
    """An error in one line, with the file it is about."""
    if isinstance(error, CheckpointError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.strerror or error}" + (f": {os.fspath(error.filename)}" if error.filename else "")
    return traceback.format_exception_only(error)[-1].strip()


def together(world: World, work: Callable[[], T], what: str) -> list[T]:
    """Do `work` on every process; the results of all, or one error on all of them.

    Raises:
        CheckpointError: it failed somewhere; says on which process and why.
    """
    outcome, error = _try(work)
    outcomes = all_gather_object(world, outcome)
    failed = told([text for _, text in outcomes], what)
    if failed:
        raise CheckpointError(failed) from error
    return [value for value, _ in outcomes]


def told(texts: list[str | None], what: str) -> str:
    """One message of what has failed on each process (None: nothing), said once by those that say the same; else empty."""
    ranks: dict[str, list[str]] = {}
    for rank, text in enumerate(texts):
        if text is not None:
            ranks.setdefault(text, []).append(str(rank))
    if len(ranks) == 1 and None not in texts:
        return _headed(what, next(iter(ranks)))
    parts = [f"process{'es' if len(same) > 1 else ''} {', '.join(same)}: {text}" for text, same in ranks.items()]
    return _headed(what, "; ".join(parts)) if parts else ""


def _headed(what: str, text: str) -> str:
    return f"{what}: {text}" if what else text


def on_main(world: World, work: Callable[[], T], what: str) -> T:
    """Do `work` on the main process; its result, or its error, on every process.

    Raises:
        CheckpointError: it failed.
    """
    outcome, error = _try(work) if world.is_main else (None, None)
    value, text = broadcast_object_list(world, [outcome])[0]
    if text is not None:
        said_already = isinstance(error, CheckpointError)
        raise CheckpointError(_headed(what, text)) from (None if said_already else error)
    return value


def _try(work: Callable[[], Any]) -> tuple[tuple[Any, str | None], BaseException | None]:
    try:
        return (work(), None), None
    except Exception as error:
        return (None, message_of(error)), error
