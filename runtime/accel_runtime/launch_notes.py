"""What the processes of a launch leave for their launcher: a folder with one file for each that has begun to train.

From it the launcher knows which of them answer an interrupt quietly, and which of several failures came first. Where no
launcher asks for notes, `take_part` does nothing.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

FOLDER = "ACCEL_LAUNCH_NOTES"
_INTERRUPTED = "interrupted"


def take_part() -> None:
    """On a launched process: be interrupted without a traceback, and note when the process ends."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return
    note = Path(folder, str(os.getpid()))
    show = sys.excepthook

    def show_unless_interrupted(kind: type[BaseException], error: BaseException, traceback: Any) -> None:
        if not issubclass(kind, KeyboardInterrupt) and not Path(folder, _INTERRUPTED).exists():
            _write(note)
            show(kind, error, traceback)

    sys.excepthook = show_unless_interrupted
    atexit.register(_write, note)
    _write(note, "")


def _write(note: Path, text: str | None = None) -> None:
    """Put down the present time, unless an earlier one is there; `text` instead of it."""
    try:
        if int(note.name) == os.getpid() and (text is not None or not note.read_text()):  # a forked child leaves no note
            note.write_text(str(time.time_ns()) if text is None else text)
    except OSError:  # the launcher is gone
        pass


class Notes:
    """The launcher's side of the folder."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def running(self) -> list[int]:
        """The ids of the processes that train."""
        return [int(note.name) for note in self.folder.iterdir() if note.name != _INTERRUPTED and not note.read_text()]

    def interrupt(self) -> None:
        """From now on whatever ends a process is the interrupt's doing."""
        (self.folder / _INTERRUPTED).touch()

    @property
    def interrupted(self) -> bool:
        return (self.folder / _INTERRUPTED).exists()

    def first(self, failures: Iterable[Any]) -> Any:
        """The failure (with `pid` and `exitcode`) that came first: of those that the launcher did not stop, the earliest.

        One without a note was killed, or failed before it began to train, so that the others' failures followed from it.
        """
        return min(failures, key=lambda failure: (failure.exitcode == -15, self._ended(failure.pid)))

    def _ended(self, pid: int) -> int:
        note = self.folder / str(pid)
        return int(note.read_text() or 0) if note.exists() else 0
