"""The report of a run as text: what was done and why, what is left, how to launch the result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from accel_migrate.edits import Severity
from accel_migrate.report.diff import Paint, coloured, unified
from accel_migrate.report.outcome import Changed, Item, Outcome, Place


@dataclass(frozen=True)
class Counts:
    """The numbers of the last line."""

    edits: int = 0
    held_back: int = 0
    by_hand: int = 0

    def __str__(self) -> str:
        edits = f"{self.edits} edit{'' if self.edits == 1 else 's'}"
        return f"{edits}, {self.held_back} unsafe held back, {self.by_hand} by hand"


def count(outcomes: Iterable[Outcome]) -> Counts:
    """What `outcomes` amount to; what several programs have in common counts once."""
    changes: dict[Path, Changed] = {}
    held_back: set[Item] = set()
    by_hand: set[Item] = set()
    for outcome in outcomes:
        changes.update((change.source.path, change) for change in outcome.changes)
        held_back.update(outcome.held_back)
        by_hand.update(for_a_person(outcome.findings))
    return Counts(sum(len(change.edits) for change in changes.values()), len(held_back), len(by_hand))


def for_a_person(findings: Iterable[Item]) -> list[Item]:
    """The findings which ask for a change; those of severity `info` only inform."""
    return [finding for finding in findings if finding.severity is not Severity.INFO]


def diff_lines(outcome: Outcome, paint: Paint) -> Iterator[str]:
    """The unified diff of all files, the entry script first."""
    for change in outcome.changes:
        yield from coloured(unified(change), paint)


def report_lines(outcome: Outcome, paint: Paint, written: bool = False) -> Iterator[str]:
    """The report without the diff; sections are separated by empty lines. `written`: the result is on the disk."""
    if outcome.status != "changed":
        yield why_unchanged(outcome)
    for change in outcome.changes:
        yield paint.bold(str(change.source.path))
        yield from (f"  {line}" for line in grouped(change.edits))
    held_back = [f"  {edit.place}: {edit.rule}: {edit.message}" for edit in outcome.held_back]
    yield from _section(paint, "Held back as unsafe (--unsafe applies them):", held_back)
    yield from _section(paint, "Left to do by hand:", _findings(for_a_person(outcome.findings)))
    informing = [finding for finding in outcome.findings if finding.severity is Severity.INFO]
    notes = [f"  {note}" for note in outcome.notes]
    yield from _section(paint, "Worth knowing:", [*_findings(informing), *notes])
    if outcome.status == "changed":
        yield from _section(paint, "Launch it:" if written else "Once written, launch it:", [f"  {outcome.launch}"])


def why_unchanged(outcome: Outcome) -> str:
    """One line for a program without changes."""
    prefix = "" if outcome.status == "unchanged" else "nothing was migrated: "
    return f"{outcome.path}: {prefix}{outcome.reason or 'there is nothing to change'}"


def grouped(edits: Sequence[Item]) -> Iterator[str]:
    """One line for each rule and reason, with all lines of the file at which it applied."""
    places: dict[tuple[str, str], list[Place]] = {}
    for edit in edits:
        found = places.setdefault((edit.rule, edit.message), [])
        if edit.place.line is not None:
            found.append(edit.place)
    for (rule, why), found in sorted(places.items(), key=lambda item: (_first(item[1]), item[0])):
        where = f" ({_lines(found)})" if found else ""
        if where or why:
            yield f"{rule}: {why}{where}" if why else f"{rule}{where}"


def _first(places: Sequence[Place]) -> tuple[int, int]:
    return min(((place.cell or 0, place.line or 0) for place in places), default=(0, 0))


def _lines(places: Sequence[Place]) -> str:
    """`lines 2, 4`; `cell 3: lines 2, 4; cell 5: line 1`."""
    by_cell: dict[int | None, set[int]] = {}
    for place in places:
        by_cell.setdefault(place.cell, set()).add(place.line or 1)
    texts = []
    for cell, lines in sorted(by_cell.items(), key=lambda item: item[0] or 0):
        prefix = f"cell {cell}: " if cell is not None else ""
        texts.append(f"{prefix}line{'s' * (len(lines) > 1)} {', '.join(map(str, sorted(lines)))}")
    return "; ".join(texts)


def _findings(findings: Sequence[Item]) -> list[str]:
    lines: list[str] = []
    for finding in findings:
        lines.append(f"  {finding.place}: {finding.rule}: {finding.message}")
        if finding.advice:
            lines.append(f"      {finding.advice}")
    return lines


def _section(paint: Paint, title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield ""
        yield paint.bold(title)
        yield from lines
