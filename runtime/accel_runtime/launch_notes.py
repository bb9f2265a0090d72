"""What the processes of a launch leave for their launcher: a folder with one file for each that has begun to train.

From it the launcher knows which of them answer an interrupt quietly, and which of several failures came first. Where no
launcher asks for notes, `take_part` does nothing.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

FOLDER = "ACCEL_LAUNCH_NOTES"
_INTERRUPTED = "interrupted"
_LEFT_ALONE = " left alone"


def take_part() -> None:
    """On a launched process: be interrupted without a traceback, and note when the process ends."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return
    note = Path(folder, str(os.getpid()))
    show = sys.excepthook

    def show_unless_interrupted(kind: type[BaseException], error: BaseException, traceback: Any) -> None:
        if not issubclass(kind, KeyboardInterrupt) and not Path(folder, _INTERRUPTED).exists():
            _write(note, _ended_now(error))
            show(kind, error, traceback)

    sys.excepthook = show_unless_interrupted
    atexit.register(lambda: _write(note, _ended_now()))


def begin() -> None:
    """On a launched process: note that it has met the others and trains."""
    folder = os.environ.get(FOLDER)
    if folder:
        _write(Path(folder, str(os.getpid())), "")


def _ended_now(error: BaseException | None = None) -> str:
    """The present time, marked where `error` says that another process has gone."""
    return f"{time.time_ns()}{_LEFT_ALONE if _is_left_alone(error) else ''}"


def _is_left_alone(error: BaseException | None) -> bool:
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(word in text for word in ("gloo", "connection", "nccl", "store"))


def _write(note: Path, text: str) -> None:
    """Put down `text`, unless the note already says how the process ended."""
    try:
        if int(note.name) == os.getpid() and not (note.exists() and note.read_text()):  # a forked child leaves no note
            note.write_text(text)
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

        One without a note was killed, so that the others' failures followed from it; except that gloo aborts a process whose
        peer has gone, and one whose error tells of a lost connection lost it to another failure.
        """
        return min(failures, key=self._order)

    def _order(self, failure: Any) -> tuple[bool, bool, bool, int]:
        note = self.folder / str(failure.pid)
        text = note.read_text() if note.exists() else ""
        when = int(text.removesuffix(_LEFT_ALONE) or 0)
        return failure.exitcode == -signal.SIGTERM, text.endswith(_LEFT_ALONE), failure.exitcode == -signal.SIGABRT, when
