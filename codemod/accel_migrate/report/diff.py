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
    """The lines of the diff, without line ends, as `patch -p0` takes them."""
    path = str(change.source.path)
    before, after = _lines(change.source.text), _lines(change.after)
    for line in difflib.unified_diff(before, after, path, path):
        text = line.removesuffix("\n")
        yield text
        if text == line:
            yield _NO_NEWLINE


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
