"""Saving when a signal says that time is up: after the step in progress, on all processes together, then exit 0.

The signal may reach the processes at different moments. Whether it has reached any is asked where all of them are at the same
place: when the loop asks for the next batch after a backward pass.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

from ..collectives import any_process
from ..world import World

DEFAULT = ("SIGTERM", "SIGUSR1")


class Stopping:
    """What happens between two steps, once `begin` was called.

    Attributes:
        requested: whether a signal has reached this process.
    """

    def __init__(self, world: World, save: Callable[[], str]) -> None:
        self.world = world
        self.save = save
        self.requested = False

    def begin(self, signals: tuple[Any, ...]) -> None:
        """Let these signals ask for the end."""
        for each in signals:
            number = getattr(signal, each, None) if isinstance(each, str) else each
            if number is not None:
                signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.requested = True

    def check(self) -> None:
        """Save and leave, if the end was asked for on any process.

        Raises:
            SystemExit: with status 0.
        """
        if any_process(self.world, self.requested):
            where = self.save()
            if self.world.is_main:
                print(f"stopped by a signal, saved in {where}", flush=True)
            raise SystemExit(0)
