"""No process outlives its launcher: one that is killed, by SIGKILL too, takes with it all that it has started.

A small process watches the launcher through a pipe, which the system closes when the launcher is gone. What belongs to the
launch it knows by a variable in the environment, so that scripts of any language, and what they start, belong to it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

_PROCESSES = Path("/proc")
_GRACE = 30.0
"""Seconds between SIGTERM, on which a training may save its state, and SIGKILL."""


@contextlib.contextmanager
def watched(mark: str) -> Iterator[None]:
    """Inside, this process's death is that of all processes whose environment holds `mark` (`NAME=value`).

    Where the system does not show environments (other than Linux), nothing is watched.
    """
    if not (_PROCESSES / "self" / "environ").exists():
        yield
        return
    reading, writing = os.pipe()
    watcher = os.fork()
    if watcher == 0:
        _become_watcher(reading, writing, mark)
    os.close(reading)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # the watcher may have been ended by a person
            os.write(writing, b"done")
        os.close(writing)
        os.waitpid(watcher, 0)


def _become_watcher(reading: int, writing: int, mark: str) -> None:
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, signal.SIG_IGN)
        os.close(writing)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):  # whoever reads the launcher's output must not wait for this process
            os.dup2(nowhere, stream)
        if not os.read(reading, 1):
            end_all(mark, _GRACE)
    finally:
        os._exit(0)


def end_all(mark: str, grace: float) -> None:
    """End all processes whose environment holds `mark`: by SIGTERM, after `grace` seconds by SIGKILL."""
    until = time.monotonic() + grace
    _signal(mark, signal.SIGTERM)
    while members(mark) and time.monotonic() < until:
        time.sleep(0.1)
    while _signal(mark, signal.SIGKILL):
        time.sleep(0.1)


def members(mark: str) -> list[int]:
    """The ids of the processes whose environment holds `mark`, except this one and those that have ended."""
    entry = b"\0" + mark.encode() + b"\0"
    found = []
    for folder in _PROCESSES.iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):  # it has gone, or is another user's
                if entry in b"\0" + (folder / "environ").read_bytes():
                    found.append(int(folder.name))
    return found


def _signal(mark: str, number: int) -> bool:
    """Whether there was any to send the signal to."""
    pids = members(mark)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
    return bool(pids)
