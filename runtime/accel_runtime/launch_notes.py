"""What the processes of a launch leave for their launcher: a folder with one file for each that has begun to train.

From it the launcher knows which of them answer an interrupt quietly, and which of several failures came first. The
traceback of the first failure is printed by its process, at once and in one piece; the others wait for the launcher, who
knows whether they tell anything new. Where no launcher asks for notes, nothing here does anything.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FOLDER = "ACCEL_LAUNCH_NOTES"
PREFIX = "accel-launch-{pid}-"
"""Of the folder's name, with the id of the launcher."""
AGENT = "agent"
"""The folder in it for files of torch's agent."""
_INTERRUPTED = "interrupted"
_FIRST = "first"
_LOST = ("gloo", "connection", "nccl", "store", "broken pipe", "by peer", "recv")
_taking_part = False


@dataclass
class Note:
    """How a process ended.

    Attributes:
        ended: nanoseconds since the epoch; 0 if it was killed, or runs.
        left_alone: its error says that another process has gone.
        traceback: what it would have printed.
        shown: whether it has.
        rank: of the process, among all.
        attempt: how often the processes had been started again; -1 in a note that no process has left.
    """

    ended: int = 0
    left_alone: bool = False
    traceback: str = ""
    shown: bool = False
    rank: int = 0
    attempt: int = -1

    @property
    def error(self) -> str:
        """The last line of the traceback: kind and message of the exception."""
        lines = self.traceback.rstrip().splitlines()
        return next((line for line in reversed(lines) if line[:1].strip()), "")


@dataclass(frozen=True)
class Failure:
    """How a process failed; torch's `ProcessFailure` has these too."""

    pid: int
    exitcode: int


def take_part() -> None:
    """On a launched process, once: be interrupted without a traceback, and note when and how the process ends."""
    global _taking_part
    folder = os.environ.get(FOLDER)
    if not folder or _taking_part:
        return
    _taking_part = True
    note = Path(folder, str(os.getpid()))
    show = sys.excepthook

    def show_the_first(kind: type[BaseException], error: BaseException, traceback: Any) -> None:
        if issubclass(kind, KeyboardInterrupt) or Path(folder, _INTERRUPTED).exists():
            return
        if int(note.name) != os.getpid():
            show(kind, error, traceback)
            return
        ended = Note(time.time_ns(), _is_left_alone(error), _formatted(kind, error, traceback), rank=_rank(), attempt=_attempt())
        ended.shown = not _is_reported(Path(folder)) or (not ended.left_alone and _is_first(Path(folder)))
        if ended.shown:
            os.write(2, ended.traceback.encode("utf-8", "replace"))
        _write(note, ended)

    sys.excepthook = show_the_first
    atexit.register(lambda: _write(note, Note(time.time_ns())))


def begin() -> None:
    """On a launched process: note that it has met the others and trains."""
    folder = os.environ.get(FOLDER)
    if folder:
        _write(Path(folder, str(os.getpid())), None)


def _formatted(kind: type[BaseException], error: BaseException, traceback: Any) -> str:
    import traceback as tracebacks

    return "".join(tracebacks.format_exception(kind, error, traceback))


def _is_reported(folder: Path) -> bool:
    """Whether the launcher sees how this process ends: not if a script of another language, or a process of the training, started it."""
    return folder.name.startswith(PREFIX.format(pid=os.getppid()))


def _is_first(folder: Path) -> bool:
    """Whether no other process of this attempt has claimed to be the first."""
    try:
        (folder / f"{_FIRST}-{_attempt()}").touch(exist_ok=False)
    except FileExistsError:
        return False
    except OSError:  # the launcher is gone
        return True
    return True


def _rank() -> int:
    return int(os.environ.get("RANK", 0))


def _attempt() -> int:
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))


def _is_left_alone(error: BaseException | None) -> bool:
    """Whether the error tells of another process that has gone: torch's own errors of its process groups and stores, and gloo's."""
    text = str(error).lower()
    return isinstance(error, RuntimeError) and (type(error).__module__.startswith("torch.") or any(word in text for word in _LOST))


def _write(path: Path, note: Note | None) -> None:
    """Put down `note` (None: the process runs), unless there already is one on how the process ended."""
    try:
        if int(path.name) == os.getpid() and not (path.exists() and path.read_text()):  # a forked child leaves no note
            path.write_text(json.dumps(asdict(note)) if note else "")
    except OSError:  # the launcher is gone
        pass


def _is_untold(failure: Any) -> bool:
    """Whether the launcher has not seen how the process failed, or only that it has stopped it."""
    return failure is None or failure.exitcode == -signal.SIGTERM


class Notes:
    """The launcher's side of the folder."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def running(self) -> list[int]:
        """The ids of the processes that train."""
        return [int(note.name) for note in self.folder.iterdir() if note.name.isdecimal() and not note.read_text()]

    def interrupt(self) -> None:
        """From now on whatever ends a process is the interrupt's doing."""
        (self.folder / _INTERRUPTED).touch()

    @property
    def interrupted(self) -> bool:
        return (self.folder / _INTERRUPTED).exists()

    def of(self, pid: int) -> Note:
        """What the process has noted; an empty note if it was killed."""
        path = self.folder / str(pid)
        text = path.read_text() if path.exists() else ""
        return Note(**json.loads(text)) if text else Note()

    def unseen(self, failures: dict[int, Any]) -> dict[int, Failure]:
        """Processes that had failed by an exception and were stopped while they were still ending, by rank.

        A peer of theirs can be gone sooner than they are, as it ends faster than their interpreter does; then the launcher
        has seen the failure that followed, and not the cause.
        """
        notes = {int(path.name): self.of(int(path.name)) for path in self.folder.iterdir() if path.name.isdecimal()}
        newest = max((note.attempt for note in notes.values()), default=0)
        return {
            note.rank: Failure(pid, 1)
            for pid, note in notes.items()
            if note.traceback and note.attempt == newest and _is_untold(failures.get(note.rank))
        }

    def first(self, failures: Iterable[Any]) -> Any:
        """The failure (with `pid` and `exitcode`) that came first: of those that the launcher did not stop, the earliest.

        One without a note was killed, so that the others' failures followed from it; except that gloo aborts a process whose
        peer has gone, and one whose error tells of a lost connection lost it to another failure.
        """
        return min(failures, key=self._order)

    def _order(self, failure: Any) -> tuple[bool, bool, bool, bool, bool, int]:
        note = self.of(failure.pid)
        stopped, aborted = (failure.exitcode == -number for number in (signal.SIGTERM, signal.SIGABRT))
        return stopped, note.left_alone, aborted, bool(note.ended), not note.shown, note.ended
