"""Saving while the training goes on: tensors are copied at once, and written, verified and moved to their place by a thread.

No collective runs in the thread. A process whose files are written leaves a note in the staging folder; the main process's
thread waits for all notes and completes the checkpoint.
"""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import torch

from ..world import World
from .capture import Files
from .errors import CheckpointError
from .manifest import File
from .save import Saving
from .writing import message_of, together, told

_PATIENCE = 600.0
_PAUSE = 0.02


class Background:
    """At most one checkpoint that is being written."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._world: World | None = None
        self._buffers: dict[Any, torch.Tensor] = {}

    def begin(self, saving: Saving, files: Files) -> str:
        """Copy what `files` hold, and write it in the background; where it will be."""
        self._stage(files)
        self._world = saving.world
        self._thread = threading.Thread(target=self._work, args=(saving, files), name="checkpoint")
        self._thread.start()
        return str(saving.target)

    def wait(self) -> None:
        """Wait for the checkpoint in progress, on every process that writes it.

        Raises:
            CheckpointError: it could not be written; on every process.
        """
        if self._thread is None or self._world is None:
            return
        self._thread.join()
        self._thread, error, self._error = None, self._error, None

        def outcome() -> None:
            if error is not None:
                raise error

        together(self._world, outcome, "")

    def _stage(self, files: Files) -> None:
        """Replace the tensors by copies. Their memory is kept for the next time: fresh memory costs more than the copy."""
        used = {}
        for name, (tensors, metadata) in files.tensors.items():
            copies = {}
            for key, tensor in tensors.items():
                mark = (name, key, tensor.dtype, tuple(tensor.shape))
                buffer = self._buffers.get(mark)
                used[mark] = copies[key] = torch.empty(tensor.shape, dtype=tensor.dtype) if buffer is None else buffer
                copies[key].copy_(tensor.detach())
            files.tensors[name] = (copies, metadata)
        self._buffers = used
        files.freeze_pickled()

    def _work(self, saving: Saving, files: Files) -> None:
        try:
            note: dict[str, Any] = {"files": {name: vars(file) for name, file in saving.write(files).items()}}
        except BaseException as error:
            note = {"error": message_of(error)}
        try:
            _leave_note(saving.path, saving.world.rank, note)
            if saving.world.is_main:
                self._complete(saving)
            elif "error" in note:
                raise CheckpointError(note["error"])
        except BaseException as error:
            self._error = error

    def _complete(self, saving: Saving) -> None:
        try:
            notes = _all_notes(saving.path, saving.world.size)
            failed = told([note.get("error") for note in notes], saving.what)
            if failed:
                raise CheckpointError(failed)
            saving.commit([{name: File(**entry) for name, entry in note["files"].items()} for note in notes])
        except BaseException:
            saving.discard()
            raise


def _note_of(folder: Path, rank: int) -> Path:
    return folder / f".written_{rank}"


def _leave_note(folder: Path, rank: int, note: dict[str, Any]) -> None:
    partial = folder / f".writing_{rank}"
    partial.write_text(json.dumps(note))
    partial.rename(_note_of(folder, rank))


def _all_notes(folder: Path, size: int) -> list[dict[str, Any]]:
    """The notes of all processes, which are taken away."""
    deadline = time.monotonic() + _PATIENCE
    notes = []
    for rank in range(size):
        path = _note_of(folder, rank)
        while not path.exists():
            if time.monotonic() > deadline:
                raise CheckpointError(
                    f"process {rank} has not written its part of {folder} within {_PATIENCE:.0f} seconds"
                )
            time.sleep(_PAUSE)
        notes.append(json.loads(path.read_text()))
        path.unlink()
    return notes
