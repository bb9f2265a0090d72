"""Unified diffs, coloured for a terminal."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from accel_migrate.report.outcome import Changed
from accel_migrate.result import FileChange

_NO_NEWLINE = "\\ No newline at end of file"


@dataclass(frozen=True)
class Paint:
    """Terminal colours, or plain text."""

    enabled: bool = False

    def bold(self, text: str) -> str:
        return self._wrap("1", text)

    def green(self, text: str) -> str:
        return self._wrap("32", text)

    def red(self, text: str) -> str:
        return self._wrap("31", text)

    def cyan(self, text: str) -> str:
        return self._wrap("36", text)

    def _wrap(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.enabled else text


def unified(change: FileChange | Changed) -> Iterator[str]:
    """The lines of the diff, without line ends, as `patch -p0` takes them; of a notebook, one diff for each cell."""
    path, notebook = str(change.source.path), change.source.notebook
    if notebook is None:
        yield from _unified(path, change.source.text, change.after)
        return
    for cell, after in zip(notebook.cells, notebook.sources(change.after), strict=True):
        yield from _unified(f"{path}:cell {cell.number}", _ended(cell.source), _ended(after))


def _unified(name: str, before: str, after: str) -> Iterator[str]:
    for line in difflib.unified_diff(_lines(before), _lines(after), name, name):
        text = line.removesuffix("\n")
        yield text
        if text == line:
            yield _NO_NEWLINE


def _ended(cell: str) -> str:
    """A cell's last line has no line end, which is worth no remark."""
    return cell if cell.endswith("\n") else cell + "\n"


def coloured(lines: Iterable[str], paint: Paint) -> Iterator[str]:
    """Removed lines red, added ones green, headers bold."""
    for line in lines:
        if line.startswith(("--- ", "+++ ")):
            yield paint.bold(line)
        elif line.startswith("@@"):
            yield paint.cyan(line)
        elif line.startswith("+"):
            yield paint.green(line)
        elif line.startswith("-"):
            yield paint.red(line)
        else:
            yield line


def _lines(text: str) -> list[str]:
    """Lines with their ends. Unlike `str.splitlines`, only `\\n` ends one: a form feed does not."""
    lines = [line + "\n" for line in text.split("\n")]
    last = lines.pop().removesuffix("\n")
    return [*lines, last] if last else lines
