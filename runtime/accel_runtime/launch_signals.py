"""Signals that mean something to the training: the launcher passes them on to its processes, and goes on waiting.

Schedulers announce the end of a job in this way, and address the launcher where they know of nothing else.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading
from pathlib import Path
from subprocess import Popen
from typing import Any, NoReturn

from .launch_notes import Notes

PASSED_ON = ("SIGUSR1", "SIGUSR2")
_GRACE = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"
_WAIT, _WAITS = 0.2, 50
"""Seconds until a signal that came while processes were being started is looked at again, and how often it is."""


class _Start:
    """The moment in which processes have been started that torch's agent does not know yet, and so could not end."""

    def __init__(self) -> None:
        self._waits = 0

    def is_under_way(self) -> bool:
        """Whether it may last still."""
        return self._waits < _WAITS and _has_children()

    def come_again(self, number: int) -> None:
        """Let the signal come a little later."""
        self._waits += 1
        timer = threading.Timer(_WAIT, os.kill, (os.getpid(), number))
        timer.daemon = True
        timer.start()


class Ending:
    """SIGTERM, where every process of this machine takes it: it is passed on once, and they have their time to end.

    Torch's agent would send it to all that they have started, too: a loader would lose its workers in the step that is to
    be finished. Where a process does not take the signal, and after that time, the agent stops all as ever.

    Attributes:
        begun: whether the processes have been told.
    """

    def __init__(self) -> None:
        self.begun = False
        self._timer: threading.Timer | None = None
        self._start = _Start()

    def begin(self) -> None:
        """Handle the signal from now on; torch's agent must not do so (`signals_to_handle`)."""
        signal.signal(signal.SIGTERM, self._handle)

    def _handle(self, number: int, frame: Any) -> None:
        known = _processes()
        started = [process for process in known if process.returncode is None]
        if not known and self._start.is_under_way():
            self._start.come_again(number)
            return
        if self.begun or not started or not all(_takes(process.pid, number) for process in started):
            _stop("the launch was ended", number)
        self.begun = True
        restart_no_more()
        _send([process.pid for process in started], number)
        self._timer = threading.Timer(float(os.environ.get(_GRACE, "30")), os.kill, (os.getpid(), number))
        self._timer.daemon = True
        self._timer.start()

    def over(self) -> None:
        """The processes have ended: the time that they had no longer runs."""
        if self._timer is not None:
            self._timer.cancel()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def pass_on(notes: Notes) -> None:
    """From now on let the processes have what is sent to this one; before they are started it ends the launch."""
    start = _Start()

    def handle(number: int, frame: Any) -> None:
        started = _processes()
        if not started and start.is_under_way():
            start.come_again(number)
            return
        if not started:
            _stop("no process has been started", number)
        _send(_receivers(started, notes.running(), number), number)

    for name in PASSED_ON:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), handle)


def ended_well() -> bool:
    """Whether all processes of this machine have been started, and have ended with 0."""
    started = _processes()
    return bool(started) and all(process.returncode == 0 for process in started)


def _stop(why: str, number: int) -> NoReturn:
    """Let torch's agent stop all processes."""
    from torch.distributed.elastic.multiprocessing.api import SignalException

    raise SignalException(why, signal.Signals(number))


def _send(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _agents() -> list[Any]:
    """Torch's agent, which its launcher does not hand out."""
    from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent

    return [each for each in gc.get_objects() if type(each) is LocalElasticAgent]


def restart_no_more() -> None:
    """What ends the processes from now on was asked for: torch's agent must not start them again."""
    for agent in _agents():
        agent._remaining_restarts = 0


def _processes() -> list[Popen[Any]]:
    """The processes of the newest attempt."""
    contexts = [agent._pcontext for agent in _agents() if agent._pcontext is not None]
    return [handler.proc for context in contexts for handler in context.subprocess_handlers.values()]


def _has_children() -> bool:
    """Whether this process has started any other; False where the system does not say."""
    with contextlib.suppress(OSError):
        return any(path.read_text().strip() for path in Path("/proc/self/task").glob("*/children"))
    return False


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
