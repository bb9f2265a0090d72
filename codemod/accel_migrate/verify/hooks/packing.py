"""Lines of a record: JSON, in which many numbers are packed as the base64 of 64-bit ones."""

from __future__ import annotations

import json
from array import array
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any


def packed(lines: Sequence[dict[str, Any]]) -> str:
    """The lines as one list; `norms` is an array of numbers, and `rows` holds integers or keys of other kinds."""
    for line in lines:
        if "norms" in line:
            line["norms"] = b64encode(line["norms"]).decode()
        elif "rows" in line:
            line["rows"] = b64encode(_whole(line["rows"])).decode()
    return json.dumps(lines) + "\n"


def unpack_numbers(text: str) -> tuple[float, ...]:
    return tuple(array("d", b64decode(text)))


def unpack_rows(text: str) -> tuple[int, ...]:
    return tuple(array("q", b64decode(text)))


def _whole(rows: list[Any]) -> array[int]:
    try:
        return array("q", rows)
    except (TypeError, OverflowError):  # keys of other kinds
        return array("q", [hash(str(row)) for row in rows])
