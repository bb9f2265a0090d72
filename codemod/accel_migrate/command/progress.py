"""A progress bar on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TypeVar

_LEAST = 2
"""Number of programs from which on a bar is worth showing."""

T = TypeVar("T")


def with_progress(results: Iterator[T], total: int, name: str = "accel-migrate") -> Iterator[T]:
    """`results`, while a bar on standard error counts them."""
    if total < _LEAST or not sys.stderr.isatty():
        return results
    from tqdm import tqdm

    tqdm.monitor_interval = 0  # its thread would be there when the workers are forked
    return iter(tqdm(results, total=total, desc=name, unit="program", leave=False, file=sys.stderr))
