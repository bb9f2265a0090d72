"""What goes on while the training does: writing a copy of the tensors, or waiting until what is written is on the disk.

A process that has done its part leaves a note; the main process's thread waits for all notes and completes the work: it moves the
checkpoint to its place, or removes what is too old.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

from .capture import Files
from .copies import Copies
from .errors import CheckpointError
from .manifest import File
from .notes import Notes
from .parallel import threads_for
from .save import Saving
from .staging import remove
from .writing import message_of, told


class Background:
    """At most one thread.

    Attributes:
        copies: where tensors are copied to.
    """

    def __init__(self) -> None:
        self.copies = Copies()
        self._thread: threading.Thread | None = None
        self._errors: list[BaseException] = []
        weakref.finalize(self, _tell, self._errors)

    def write(self, saving: Saving, files: Files) -> str:
        """Copy what `files` hold, and write it in the background; where it will be.

        Where memory for the copies is yet to be taken, writing to the memory that the system has for files can be the cheaper copy:
        then that is done now, and the disk is left to the background, like taking the memory for the next time.
        """
        notes = Notes(saving.world, saving.path.name)
        if self.copies.are_dearer_than_files(files, saving.path, saving.world.local_size):
            self._write_now(saving, files, notes)
        else:
            self.copies.replace_tensors(files, threads_for(saving.world))
            self._start(lambda: self._complete(saving, _done(lambda: _entries(saving.write(files))), notes))
        return str(saving.target)

    def _write_now(self, saving: Saving, files: Files, notes: Notes) -> None:
        saving.unsynced.begin = False
        note = _done(lambda: _entries(saving.write_to_memory(files)))
        missing = self.copies.missing(files)

        def work() -> None:
            try:
                self._complete(saving, _then(note, saving.unsynced.sync), notes)
            finally:
                self.copies.take(missing)

        self._start(work)

    def settle(self, saving: Saving) -> str:
        """See to it that a checkpoint reaches the disk, and then that old ones are removed; where it is."""
        notes = Notes(saving.world, saving.path.name)
        self._start(lambda: self._settle(saving, notes))
        return str(saving.target)

    def join(self) -> None:
        """Wait until the work is done."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def raise_error(self) -> None:
        """Raise what has gone wrong in the work that was waited for; on the main process this is what went wrong anywhere."""
        if self._errors:
            raise self._errors.pop()

    def _start(self, work: Callable[[], None]) -> None:
        self._errors.clear()
        self._thread = threading.Thread(target=self._keeping_errors, args=(work,), name="checkpoint")
        self._thread.start()

    def _keeping_errors(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self._errors.append(error)

    def _complete(self, saving: Saving, note: dict[str, Any], notes: Notes) -> None:
        if not saving.world.is_main:
            return notes.leave(note)
        try:
            found = notes.all(note, saving.path)
            _raise_told(found, saving.what)
            saving.commit([{name: File(**entry) for name, entry in each["done"].items()} for each in found])
        except BaseException:
            saving.discard()
            raise

    def _settle(self, saving: Saving, notes: Notes) -> None:
        note = _done(saving.unsynced.sync)
        if "error" in note:
            note["error"] = note["error"].replace(str(saving.path), str(saving.target))
        if not saving.world.is_main:
            return notes.leave(note)
        known = True
        try:
            found = notes.all(note, saving.target)
        except Exception:  # the script has moved it, or a process is gone: it is whole still
            found, known = [note], False
        _withdraw_if_failed(saving, found)
        if known:
            saving.prune()


def _withdraw_if_failed(saving: Saving, notes: list[dict[str, Any]]) -> None:
    """Remove a checkpoint that the disk has not taken.

    Raises:
        CheckpointError: it has not.
    """
    what = f"{saving.target} did not reach the disk and was removed, earlier checkpoints are untouched"
    failed = told([note.get("error") for note in notes], what)
    try:
        if not failed:
            saving.sync_names()
    except OSError as error:
        failed = f"{what}: {message_of(error)}"
    if failed:
        remove(saving.target)
        raise CheckpointError(failed)


def _tell(errors: list[BaseException]) -> None:
    """Say at the end of the process what nobody has asked for."""
    for error in errors:
        print(f"accel_runtime: {message_of(error)}", file=sys.stderr)


def _done(work: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"done": work()}
    except BaseException as error:
        return {"error": message_of(error)}


def _then(note: dict[str, Any], work: Callable[[], None]) -> dict[str, Any]:
    """The note, if `work` does not fail."""
    return note | {key: text for key, text in _done(work).items() if key == "error"} if "error" not in note else note


def _entries(files: dict[str, File]) -> dict[str, Any]:
    return {name: vars(file) for name, file in files.items()}


def _raise_told(notes: list[dict[str, Any]], what: str) -> None:
    if failed := told([note.get("error") for note in notes], what):
        raise CheckpointError(failed)
