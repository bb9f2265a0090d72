"""What came out of one program, as plain data: what every report is made of, and what one process can send another."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from accel_migrate.edits import Edit, Finding, Severity
from accel_migrate.places import node_of
from accel_migrate.project import Project
from accel_migrate.result import Result, Status
from accel_migrate.source import Source


@dataclass(frozen=True, order=True)
class Place:
    """Where in a file something stands: from the character at `line` and `column` up to the one before the end.

    All are counted from 1. Without `line` it concerns the file as a whole.
    """

    path: str
    line: int | None = None
    column: int = 1
    end_line: int = 1
    end_column: int = 1
    cell: int | None = None
    """In a notebook the number of the cell, in which lines are counted, among the cells of all kinds."""

    def __str__(self) -> str:
        cell = f"cell {self.cell}:" if self.cell is not None else ""
        return f"{self.path}:{cell}{self.line or 1}"


@dataclass(frozen=True)
class Item:
    """One edit or finding as a report shows it."""

    place: Place
    rule: str
    message: str
    """The reason of an edit; what happens on several processes, for a finding."""
    advice: str = ""
    severity: Severity = Severity.INFO
    kind: str = ""
    """The class of an edit."""
    fix: str = ""
    """How a fault can be mended: `safe`, `unsafe`, or not by a tool."""
    text: str = ""
    """The line of the file on which it starts, without spaces around it."""

    @property
    def in_one(self) -> str:
        """Message and advice, which may begin with code."""
        return ". ".join(filter(None, (self.message, self.advice)))


@dataclass(frozen=True, eq=False)
class Changed:
    """One file that becomes another, see `FileChange`."""

    source: Source
    after: str
    edits: Sequence[Item]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What the migration of one program comes to; the fields are those of `Result`."""

    project: Project
    status: Status
    reason: str = ""
    changes: Sequence[Changed] = ()
    """The entry script's first, the others by path."""
    findings: Sequence[Item] = ()
    held_back: Sequence[Item] = ()
    notes: Sequence[str] = ()
    explanation: str = ""
    launch: str = ""
    """The command that trains on two processes."""
    mended: int = 0
    """How many faults the linter put right."""

    @property
    def path(self) -> Path:
        """The script."""
        return self.project.entry.path


@dataclass
class Run:
    """Everything that one call of the command line did."""

    outcomes: list[Outcome] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """What went wrong, one line each."""
    written: list[Path] = field(default_factory=list)


def outcome_of(result: Result, launch: str = "") -> Outcome:
    """`result` without its syntax trees."""
    entry = result.project.entry.path
    changes = [Changed(change.source, change.after, _items(change.edits)) for change in result.changes]
    return Outcome(
        project=result.project,
        status=result.status,
        reason=result.reason,
        changes=sorted(changes, key=lambda change: (change.source.path != entry, str(change.source.path))),
        findings=_items(result.findings),
        held_back=_items(result.held_back),
        notes=[*result.notes, *result.project.notes],
        explanation=result.explanation,
        launch=launch,
    )


def _items(found: Iterable[Edit | Finding]) -> list[Item]:
    """In the order of the file; what concerns the file as a whole comes last."""
    return sorted(map(_item, found), key=_order)


def _order(item: Item) -> tuple[str, bool, int, int, int, str]:
    place = item.place
    return place.path, place.line is None, place.cell or 0, place.line or 0, place.column, item.rule


def _item(found: Edit | Finding) -> Item:
    place = place_of(found.source, node_of(found))
    line = getattr(node_of(found), "lineno", None)
    text = found.source.text.split("\n")[line - 1].strip() if line else ""
    if isinstance(found, Finding):
        fix = getattr(found, "fix", None)
        return Item(place, found.rule, found.message, found.advice, found.severity, fix="" if fix is None else "safe" if fix.safe else "unsafe", text=text)
    return Item(place, found.rule, found.why, kind=type(found).__name__, text=text)


def place_of(source: Source, node: ast.AST | None) -> Place:
    """The place of `node`, its columns in characters; the file as a whole where it has none."""
    line = getattr(node, "lineno", None)
    if node is None or line is None:
        return Place(str(source.path))
    end_line = int(getattr(node, "end_lineno", None) or line)
    start, end = int(getattr(node, "col_offset", 0)), int(getattr(node, "end_col_offset", None) or 0)
    columns = _column(source, line, start), _column(source, end_line, end)
    if source.notebook is None:
        return Place(str(source.path), line, columns[0], end_line, columns[1])
    cell, inside = source.notebook.place(line)
    return Place(str(source.path), inside, columns[0], inside + end_line - line, columns[1], cell)


def _column(source: Source, line: int, offset: int) -> int:
    """From an offset in UTF-8 bytes, as `ast` counts."""
    text = source.text.split("\n")[line - 1]
    return len(text.encode()[:offset].decode(errors="ignore")) + 1
