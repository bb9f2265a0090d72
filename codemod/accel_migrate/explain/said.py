"""One sentence of an explanation, and where in the program it belongs."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from accel_migrate.facts.facts import Facts
from accel_migrate.source import Source

_LONGEST = 60


@dataclass(frozen=True)
class Said:
    """A sentence about a node; without a node about the program."""

    text: str
    source: Source | None = None
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return self.text if self.source is None else f"{self.source.where(self.line)}: {self.text}"

    @property
    def order(self) -> tuple[str, int, int]:
        """By file, line and column; what concerns the program comes last."""
        return ("\uffff", 0, 0) if self.source is None else (str(self.source.path), self.line, self.column)


def said(text: str, source: Source, node: ast.AST) -> Said:
    """A sentence about `node`."""
    return Said(text, source, getattr(node, "lineno", 1), getattr(node, "col_offset", 0))


def quoted(node: ast.AST) -> str:
    """The node as code, shortened."""
    text = " ".join(ast.unparse(node).split())
    return f"`{text}`" if len(text) <= _LONGEST else f"`{text[:_LONGEST]}...`"


def listed(items: Sequence[str], word: str = "and") -> str:
    """`a, b and c`."""
    unique = list(dict.fromkeys(items))
    return unique[0] if len(unique) == 1 else f"{', '.join(unique[:-1])} {word} {unique[-1]}" if unique else ""


def places(facts: Facts, nodes: Iterable[ast.AST], beside: Source) -> str:
    """`lines 3 and 7` of the file in which it is said, `engine.py:3` of another one or of a notebook."""
    ordered = sorted(nodes, key=lambda node: (getattr(node, "lineno", 1), getattr(node, "col_offset", 0)))
    here = [str(getattr(node, "lineno", 1)) for node in ordered if facts.source(node) is beside and beside.notebook is None]
    others = [facts.source(node).where(getattr(node, "lineno", 1)) for node in ordered if facts.source(node) is not beside or beside.notebook]
    lines = [f"line{'s' * (len(set(here)) > 1)} {listed(here)}"] if here else []
    return listed([*lines, *others])


def indefinite(noun: str) -> str:
    """`an optimizer`."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
