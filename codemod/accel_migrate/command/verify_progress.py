"""A bar that counts the runs of a verification, on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_ONCE, _EACH = 3, 3
"""Runs that every verification needs (start, original, control), and those for each number of processes (training, loading either way)."""


@contextmanager
def progress(numbers: int) -> Iterator[Callable[[str], None]]:
    """What to call with the name of each run that begins; `numbers` of processes are verified.

    How many runs it takes is known only when nothing differs: the search for a cause makes the bar longer.
    """
    if not sys.stderr.isatty():
        yield lambda what: None
        return
    from tqdm import tqdm

    with tqdm(total=_ONCE + _EACH * numbers, desc="accel verify", unit="run", leave=False, file=sys.stderr) as bar:

        def begin(what: str) -> None:
            bar.total = max(bar.total, bar.n + 1)
            bar.set_description(what, refresh=False)
            bar.update()

        yield begin
