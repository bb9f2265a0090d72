"""A Python file as it lies on disk: its text, and what is needed to write it back unchanged elsewhere."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True, eq=False)
class Source:
    """One file. `text` has `\\n` line ends only; `newline`, `encoding` and `bom` say how it was stored."""

    path: Path
    text: str
    encoding: str = "utf-8"
    newline: str = "\n"
    bom: bool = False
    module: str = "__main__"
    """Dotted name under which project files import it."""
    is_package: bool = False
    """Whether it is an `__init__.py`, which shifts relative imports by one level."""
    _lines: list[str] = field(default_factory=list, repr=False)

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree. Every question and every edit is addressed by the nodes of this one tree."""
        return ast.parse(self.text, filename=str(self.path))
