"""Parts of printed lines that are never the same twice: durations, speeds, memory, times of day, places."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBER = r"[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?"
_UNITS = r"(?:s|sec|secs|seconds?|ms|us|µs|mins|minutes?|hours?|[KMG]i?B)"
_RATES = r"(?:it|its|samples?|img|imgs|images?|tok|tokens?|steps?|batch|batches|examples?|seq|sequences?)\s*(?:/|per )\s*s(?:ec(?:ond)?)?\b"
_PATTERNS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\b\d{4}-\d\d-\d\d\b",
        r"\b\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d+)?\b",
        rf"{_NUMBER}\s*{_RATES}",
        rf"{_NUMBER}\s*s/(?:it|step|batch|epoch)\b",
        rf"(?:{_NUMBER}\s*{_UNITS})+\b",
        rf"\b(?:time|elapsed|took|duration|eta|seconds|sec|ms|throughput|speed|memory|pid)\b[^\d\n]{{0,12}}{_NUMBER}",
        r"\b0x[0-9a-f]{6,}\b",
    )
]


def masked(lines: Sequence[str], places: Sequence[str]) -> list[str]:
    """`lines` with these parts replaced by the same text; `places` are folders which differ from run to run."""
    return [_masked(line, places) for line in lines]


def _masked(line: str, places: Sequence[str]) -> str:
    for place in places:
        line = line.replace(place, "<folder>")
    for pattern in _PATTERNS:
        line = pattern.sub("<varies>", line)
    return line
