"""Pages of documentation whose blocks of Python are tests: how they are found, cut up and marked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
BORDER = "\n# example\n\n"
"""Between README.md's lines and those of an example; the tool leaves comments alone."""
_BLOCK = re.compile(r"^(?:## (?P<kind>\w+)\n\n)?```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"  # <-$", re.MULTILINE)


@dataclass(frozen=True)
class Folder:
    """The pages of one folder below docs/ and its README.md, which gives the lines that examples follow."""

    name: str

    @property
    def index(self) -> Path:
        return DOCS / self.name / "README.md"

    def pages(self) -> dict[str, str]:
        """Id -> text, without README.md."""
        return {path.stem: path.read_text() for path in sorted(self.index.parent.glob("*.md")) if path != self.index}

    def preludes(self) -> tuple[str, ...]:
        """The blocks of README.md, in order."""
        return _preludes(self.index)


@cache
def _preludes(index: Path) -> tuple[str, ...]:
    return tuple(code for _, code in blocks(index.read_text()))


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """The title right above each block of Python of a page ("" without one), and its code."""
    return ((match["kind"] or "", match["code"]) for match in _BLOCK.finditer(text))


def marked_lines(code: str) -> set[int]:
    """Lines that carry the mark `# <-`, counted from 1."""
    return {number for number, line in enumerate(code.split("\n"), start=1) if _MARK.search(line)}


def unmarked(code: str) -> str:
    """The code without its marks."""
    return _MARK.sub("", code)
