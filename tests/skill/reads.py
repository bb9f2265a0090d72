"""Counts the samples that a script reads from map-style data sets, over all its processes: one byte each in the file `GRADE_READS`."""

from __future__ import annotations

import os
from typing import Any


def count() -> None:
    """Called in every process before the script."""
    from torch.utils.data._utils import fetch

    place = os.environ.get("GRADE_READS")
    if not place:
        return
    original = fetch._MapDatasetFetcher.fetch
    file = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def counting(self: Any, indices: Any) -> Any:
        os.write(file, b"." * (len(indices) if isinstance(indices, list) else 1))
        return original(self, indices)

    fetch._MapDatasetFetcher.fetch = counting
