"""Where in the text of a notebook the sources of its code cells stand, so that nothing else is written anew."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_SPACE = re.compile(r"[ \t\r\n]*")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_decode = json.JSONDecoder().raw_decode


@dataclass(frozen=True)
class Span:
    """A value in a JSON text: `text[start:end]`."""

    start: int
    end: int
    value: Any


def members(text: str, start: int) -> Iterator[tuple[str, Span]]:
    """Keys and values of the object at `start` of a valid JSON text."""
    place = _skip(text, start + 1)
    while text[place] != "}":
        key, place = _decode(text, place)
        place = _skip(text, _skip(text, place) + 1)
        value, end = _decode(text, place)
        yield key, Span(place, end, value)
        place = _next(text, end)


def elements(text: str, start: int) -> Iterator[Span]:
    """The values in the array at `start` of a valid JSON text."""
    place = _skip(text, start + 1)
    while text[place] != "]":
        value, end = _decode(text, place)
        yield Span(place, end, value)
        place = _next(text, end)


def code_cells(text: str) -> Iterator[tuple[int, Span]]:
    """Number, counted from 1 over cells of all kinds, and source of each code cell."""
    start = _skip(text, 0)
    (cells,) = [span for key, span in members(text, start) if key == "cells"]
    for number, cell in enumerate(elements(text, cells.start), 1):
        if cell.value["cell_type"] == "code":
            for key, span in members(text, cell.start):
                if key == "source":
                    yield number, span


def rewritten(text: str, span: Span, source: str) -> str:
    """The JSON of a cell's new `source`, in the manner of the old one: a string or a list of lines, with its spaces.

    Lines that were there before keep their escapes.
    """
    if isinstance(span.value, str):
        return json.dumps(source, ensure_ascii=text.isascii())
    old = {item.value: text[item.start : item.end] for item in elements(text, span.start)}
    lines = [old.get(line) or json.dumps(line, ensure_ascii=text.isascii()) for line in _LINE.findall(source)]
    opening, between, closing = _layout(text, span)
    return f"[{opening}{between.join(lines)}{closing}]" if lines else "[]"


def _layout(text: str, span: Span) -> tuple[str, str, str]:
    """What stands before the first line, between two lines and behind the last one."""
    items = list(elements(text, span.start))
    if not items:
        return "", ", ", ""
    opening, closing = text[span.start + 1 : items[0].start], text[items[-1].end : span.end - 1]
    between = text[items[0].end : items[1].start] if len(items) > 1 else "," + (opening or " ")
    return opening, between, closing


def _skip(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    return match.end() if match else place


def _next(text: str, end: int) -> int:
    """The start of the next key or value after the one that ends at `end`, or the closing bracket."""
    place = _skip(text, end)
    return _skip(text, place + 1) if text[place] == "," else place
