"""Copying and reading in several threads at once, where cores are idle."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from ..world import World

T = TypeVar("T")
_MOST = 4
"""Threads; more gain little, since the memory is shared."""


def threads_for(world: World) -> int:
    """How many threads this process may keep busy for a moment, its own among them: as many as idle cores fall to it."""
    try:
        idle = len(os.sched_getaffinity(0)) - os.getloadavg()[0]
    except (AttributeError, OSError):  # Windows; no such figure
        return 1
    return 1 + min(max(round(idle), 0) // world.local_size, _MOST - 1)


def all_of(works: Sequence[Callable[[], T]], threads: int) -> list[T]:
    """The results of `works`, in their order.

    Each thread takes the next one when it has done one, this thread too, so that one that gets no core has little to do.

    Raises:
        BaseException: the first that one of them has raised; works that have not begun are left.
    """
    results: dict[int, T] = {}
    errors: list[BaseException] = []
    waiting, lock = iter(range(len(works))), threading.Lock()

    def take() -> None:
        while not errors:
            with lock:
                index = next(waiting, None)
            if index is None:
                return
            try:
                results[index] = works[index]()
            except BaseException as error:
                errors.append(error)

    helpers = [threading.Thread(target=take) for _ in range(min(threads, len(works)) - 1)]
    for helper in helpers:
        helper.start()
    take()
    for helper in helpers:
        helper.join()
    if errors:
        raise errors[0]
    return [results[index] for index in range(len(works))]
