"""A notebook as one program: the code of its cells in order, with a marker between two cells."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from accel_migrate.errors import UserError
from accel_migrate.notebook.magics import as_comments, hidden, restored
from accel_migrate.notebook.spans import Span, code_cells, rewritten

_MARKER = "__cell__({number})\n"
_MARKED = re.compile(r"^__cell__\((\d+)\)(?:\n|\Z)", re.MULTILINE)
_BLANK = re.compile(r"\s*")


@dataclass(frozen=True)
class Cell:
    """One code cell: its number in the notebook, where its source stands, its source, and the text of the program."""

    number: int
    span: Span
    source: str
    text: str
    closed: bool
    """Whether `text` has a line end more than the cell."""


@dataclass(frozen=True, eq=False)
class Notebook:
    """What is needed to write a changed program back into its notebook."""

    raw: str
    """The whole file."""
    cells: tuple[Cell, ...]
    """The code cells that have code in them."""
    magics: tuple[str, ...]
    """What stood in the cells in the place of stand-ins, see `magics`."""

    @cached_property
    def text(self) -> str:
        """The program: each line is one of a cell, or a marker."""
        parts = [cell.text if number == 0 else _MARKER.format(number=cell.number) + cell.text for number, cell in enumerate(self.cells)]
        return "".join(parts)

    def split(self, text: str) -> list[str]:
        """The text of each cell in a rewritten program."""
        return [part for number, part in enumerate(_MARKED.split(text)) if number % 2 == 0] if self.cells else []

    def sources(self, text: str) -> list[str]:
        """The source of each code cell after a rewrite, magics and all."""
        parts = self.split(text)
        assert len(parts) == len(self.cells), "a marker between two cells was lost"
        return [
            cell.source if part == cell.text else _source(cell, restored(part, self.magics))
            for cell, part in zip(self.cells, parts, strict=True)
        ]

    def encode(self, text: str) -> bytes:
        """The file for a rewritten program; cells that did not change stay byte for byte."""
        pieces, done = [], 0
        for cell, source in zip(self.cells, self.sources(text), strict=True):
            if source != cell.source:
                pieces += [self.raw[done : cell.span.start], rewritten(self.raw, cell.span, source)]
                done = cell.span.end
        return "".join([*pieces, self.raw[done:]]).encode()

    def script(self, text: str) -> str:
        """A rewritten program as a script: magics are comments, cells stand apart."""
        parts = [as_comments(part, self.magics).strip("\n") for part in self.split(text)]
        return "\n\n\n".join(filter(None, parts)) + "\n"

    def marked_script(self, text: str) -> str:
        """As `script`, with a comment `# %% cell N` before each cell, whose lines stay where they are in it."""
        parts = zip(self.cells, self.split(text), strict=True)
        return "\n".join(f"# %% cell {cell.number}\n{as_comments(part, self.magics).rstrip()}\n" for cell, part in parts)

    def place(self, line: int) -> tuple[int, int]:
        """Number of the cell, and line in it, for a line of `text`."""
        if not self.cells:
            return 1, line
        position = max(bisect_right(self._starts, line) - 1, 0)
        return self.cells[position].number, max(line - self._starts[position] + 1, 1)

    @cached_property
    def _starts(self) -> Sequence[int]:
        """The line of `text` on which each cell starts."""
        starts, line = [], 1
        for number, cell in enumerate(self.cells):
            line += number > 0
            starts.append(line)
            line += cell.text.count("\n")
        return starts


def read_notebook(path: Path, data: bytes) -> Notebook:
    """The notebook in `data`.

    Raises:
        UserError: it is no notebook of format 4 or 5, or not in Python.
    """
    raw, document = _parsed(path, data)
    _check(path, document)
    magics: list[str] = []
    cells = tuple(_cells(raw, magics))
    return Notebook(raw, cells, tuple(magics))


def _parsed(path: Path, data: bytes) -> tuple[str, Any]:
    try:
        raw = data.decode()
        return raw, json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: is not a notebook: {error}") from None


def _check(path: Path, document: Any) -> None:
    cells = document.get("cells") if isinstance(document, dict) else None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) and "cell_type" in cell for cell in cells):
        advice = f"convert it first: jupyter nbconvert --to notebook --inplace {path}"
        raise UserError(f"{path}: is not a notebook of format 4; {advice}")
    metadata = document.get("metadata") or {}
    language = (metadata.get("kernelspec") or {}).get("language") or (metadata.get("language_info") or {}).get("name")
    if language and str(language).lower() not in {"python", "python3", "ipython"}:
        raise UserError(f"{path}: is a notebook in {language}, a Python notebook was expected")


def _cells(raw: str, magics: list[str]) -> Iterator[Cell]:
    for number, span in code_cells(raw):
        source = span.value if isinstance(span.value, str) else "".join(span.value)
        if _BLANK.fullmatch(source):
            continue
        text = hidden(source.replace("\r\n", "\n"), magics)
        closed = not text.endswith("\n")
        yield Cell(number, span, source, text + "\n" * closed, closed)


def _source(cell: Cell, text: str) -> str:
    """`text` beginning and ending as the cell did: mostly without a line end."""
    if not cell.text.startswith("\n"):
        text = text.lstrip("\n")
    if cell.closed:
        text = text.removesuffix("\n")
    return text.replace("\n", "\r\n") if "\r\n" in cell.source else text
