"""Does any of the processes still compute?"""

from __future__ import annotations

import os
import time
from pathlib import Path

_LEAST_SHARE = 0.02
"""Of one core, below which processes count as waiting."""
_CHECK_SECONDS = 0.25


class Activity:
    """Watches the processor time of process groups; where it cannot be read, they count as active."""

    def __init__(self, leaders: list[int], patience: float) -> None:
        self._leaders = set(leaders)
        self._patience = patience
        self._since = self._checked = time.monotonic()
        self._used = 0.0

    def has_stopped(self) -> bool:
        """Whether all of them together have computed next to nothing for `patience` seconds."""
        now = time.monotonic()
        if now - self._checked < _CHECK_SECONDS:
            return False
        self._checked = now
        used = _processor_seconds(self._leaders)
        if used is None or used - self._used > _LEAST_SHARE * max(now - self._since, 1.0):
            self._since, self._used = now, used or 0.0
        return now - self._since > self._patience


def _processor_seconds(groups: set[int]) -> float | None:
    """Processor time used so far by all processes of these groups, loader workers included."""
    if not Path("/proc/self/stat").exists():
        return None
    ticks = 0
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            ticks += _ticks(entry.path, groups)
    return ticks / os.sysconf("SC_CLK_TCK")


def _ticks(process: str, groups: set[int]) -> int:
    try:
        fields = Path(process, "stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended in the meantime
        return 0
    return int(fields[11]) + int(fields[12]) if int(fields[2]) in groups else 0
