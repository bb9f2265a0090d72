"""Workers of loaders outlive a signal that is sent to all processes of a group, until the state is saved.

torch lets SIGTERM end a worker at once, and the training with an error in place of a checkpoint. Here the first one is only
noted: the training ends the worker when it leaves, by a second one; if it does not, the worker ends by itself a minute later.
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

from torch.utils.data._utils import signal_handling

GRACE = 60.0
"""Seconds; as long as the launcher leaves the training."""


def outlive_signals() -> None:
    """Let workers that are forked from now on take a first SIGTERM calmly, and pay no heed to SIGUSR1."""
    plain = signal_handling._set_worker_signal_handlers
    if not hasattr(plain, "calm"):

        def calm() -> None:
            plain()
            _Patient().begin()

        calm.calm = True  # type: ignore[attr-defined]
        signal_handling._set_worker_signal_handlers = calm


class _Patient:
    """The handlers of one worker."""

    def __init__(self) -> None:
        self.asked = False

    def begin(self) -> None:
        signal.signal(signal.SIGTERM, self._end)
        if hasattr(signal, "SIGUSR1"):
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    def _end(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            os._exit(0)
        self.asked = True
        timer = threading.Timer(GRACE, os._exit, (0,))
        timer.daemon = True
        timer.start()
