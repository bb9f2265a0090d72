"""Lines of a record: JSON, in which many numbers are packed as the base64 of 64-bit ones."""

from __future__ import annotations

import json
from array import array
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from typing import Any

_ENCODE = json.JSONEncoder(check_circular=False).encode


def packed(lines: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The lines; `norms` is an array of numbers, and `rows` holds integers or keys of other kinds."""
    for line in lines:
        if "norms" in line:
            line = {**line, "norms": b64encode(line["norms"].tobytes()).decode()}
        elif "rows" in line:
            line = {**line, "rows": b64encode(array("q", _whole(line["rows"])).tobytes()).decode()}
        yield _ENCODE(line) + "\n"


def unpack_numbers(text: str) -> tuple[float, ...]:
    return tuple(array("d", b64decode(text)))


def unpack_rows(text: str) -> tuple[int, ...]:
    return tuple(array("q", b64decode(text)))


def _whole(rows: list[Any]) -> list[int]:
    try:
        return [int(row) for row in rows]
    except (TypeError, ValueError, OverflowError):  # keys of other kinds
        return [hash(str(row)) for row in rows]
