"""Signals that mean something to the training: the launcher passes them on to its processes, and goes on waiting.

Schedulers announce the end of a job in this way, and address the launcher where they know of nothing else.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
from pathlib import Path
from subprocess import Popen
from typing import Any

from .launch_notes import Notes

PASSED_ON = ("SIGUSR1", "SIGUSR2")


def pass_on(notes: Notes) -> None:
    """From now on let the processes have what is sent to this one; before they are started it ends the launch."""

    def handle(number: int, frame: Any) -> None:
        started = _processes()
        if not started:
            from torch.distributed.elastic.multiprocessing.api import SignalException

            raise SignalException("no process has been started", signal.Signals(number))
        for pid in _receivers(started, notes.running(), number):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    for name in PASSED_ON:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), handle)


def ended_well() -> bool:
    """Whether all processes of this machine have been started, and have ended with 0."""
    started = _processes()
    return bool(started) and all(process.returncode == 0 for process in started)


def _processes() -> list[Popen[Any]]:
    """The processes of torch's agent, which does not hand them out: those of the newest attempt."""
    from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent

    agents = [each for each in gc.get_objects() if type(each) is LocalElasticAgent]
    contexts = [agent._pcontext for agent in agents if agent._pcontext is not None]
    return [handler.proc for context in contexts for handler in context.subprocess_handlers.values()]


def _receivers(started: list[Popen[Any]], training: list[int], number: int) -> list[int]:
    """Whom a signal is for: those that take it, such as a script that a shell has started, so that it ends nobody else.

    If nobody does, it does to the processes what it does to those without a launcher.
    """
    roots = [process.pid for process in started if process.returncode is None]
    further = [pid for pid in training if pid not in roots and _session(pid) in roots]
    return [pid for pid in (*roots, *further) if _takes(pid, number)] or roots


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def _takes(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal, or keeps it back to ask for it; True where the system does not say."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return True
    masks = [int(line.split()[1], 16) for line in lines if line.startswith(("SigCgt:", "SigBlk:"))]
    return any(mask >> (number - 1) & 1 for mask in masks)
