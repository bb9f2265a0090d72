"""The report of a run as text: what was done and why, what is left, how to launch the result."""

from __future__ import annotations

import ast
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from accel_migrate.edits import Edit, Finding, Severity
from accel_migrate.places import line_of, node_of
from accel_migrate.project import Project
from accel_migrate.report.diff import Paint, coloured, unified
from accel_migrate.result import FileChange, Result


@dataclass(frozen=True)
class Counts:
    """The numbers of the last line."""

    edits: int = 0
    held_back: int = 0
    by_hand: int = 0

    def __str__(self) -> str:
        edits = f"{self.edits} edit{'' if self.edits == 1 else 's'}"
        return f"{edits}, {self.held_back} unsafe held back, {self.by_hand} by hand"


def count(results: Iterable[Result]) -> Counts:
    """What `results` amount to; what several programs have in common counts once."""
    changes: dict[Path, FileChange] = {}
    held_back: set[tuple[object, ...]] = set()
    by_hand: set[tuple[object, ...]] = set()
    for result in results:
        changes.update((change.source.path, change) for change in result.changes)
        held_back.update((edit.source.path, node_of(edit), edit.rule, edit.why) for edit in result.held_back)
        by_hand.update((item.source.path, item.node, item.rule, item.message) for item in for_a_person(result.findings))
    return Counts(sum(len(change.edits) for change in changes.values()), len(held_back), len(by_hand))


def for_a_person(findings: Iterable[Finding]) -> list[Finding]:
    """The findings which ask for a change; those of severity `info` only inform."""
    return [finding for finding in findings if finding.severity is not Severity.INFO]


def diff_lines(result: Result, paint: Paint) -> Iterator[str]:
    """The unified diff of all files, the entry script first."""
    for change in ordered(result):
        yield from coloured(unified(change), paint)


def report_lines(result: Result, paint: Paint, launch: str) -> Iterator[str]:
    """The report without the diff; sections are separated by empty lines."""
    if result.status != "changed":
        yield why_unchanged(result)
    for change in ordered(result):
        yield paint.bold(str(change.source.path))
        yield from (f"  {line}" for line in _grouped(change.edits))
    yield from _section(paint, "Held back as unsafe (--unsafe applies them):", _held_back(result.held_back))
    yield from _section(paint, "Left to do by hand:", _findings(for_a_person(result.findings)))
    informing = [finding for finding in result.findings if finding.severity is Severity.INFO]
    notes = [f"  {note}" for note in (*result.notes, *result.project.notes)]
    yield from _section(paint, "Worth knowing:", [*_findings(informing), *notes])
    if result.status == "changed":
        yield from _section(paint, "Launch it:", [f"  {launch}"])


def why_unchanged(result: Result) -> str:
    """One line for a result without changes."""
    prefix = "" if result.status == "unchanged" else "nothing was migrated: "
    return f"{result.project.entry.path}: {prefix}{result.reason or 'there is nothing to change'}"


def launch_line(project: Project, target: str, script: Path) -> str:
    """The command that trains on two processes; as a module where the script imports relatively."""
    relative = any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(project.entry.tree))
    program = "accel" if target == "accel_runtime" else "accelerate"
    what = f"-m {project.entry.module}" if relative else shlex.quote(os.fspath(script))
    return f"{program} launch --num_processes 2 {what} ARGS"


def ordered(result: Result) -> list[FileChange]:
    """The changes, the entry script's first, the others by path."""
    entry = result.project.entry.path
    return sorted(result.changes, key=lambda change: (change.source.path != entry, str(change.source.path)))


def _grouped(edits: Sequence[Edit]) -> Iterator[str]:
    """One line for each rule and reason, with all lines of the file at which it applied."""
    lines: dict[tuple[str, str], list[int]] = {}
    for edit in edits:
        numbers = lines.setdefault((edit.rule, edit.why), [])
        if node_of(edit) is not None and line_of(edit) not in numbers:
            numbers.append(line_of(edit))
    for (rule, why), numbers in sorted(lines.items(), key=lambda item: (min(item[1], default=0), item[0])):
        where = f" (line{'s' * (len(numbers) > 1)} {', '.join(map(str, sorted(numbers)))})" if numbers else ""
        if where or why:
            yield f"{rule}: {why}{where}" if why else f"{rule}{where}"


def _held_back(edits: Sequence[Edit]) -> list[str]:
    return [f"  {edit.source.path}:{line_of(edit)}: {edit.rule}: {edit.why}" for edit in edits]


def _findings(findings: Sequence[Finding]) -> list[str]:
    lines: list[str] = []
    for finding in sorted(findings, key=lambda finding: (str(finding.source.path), line_of(finding))):
        lines.append(f"  {finding.source.path}:{line_of(finding)}: {finding.rule}: {finding.message}")
        if finding.advice:
            lines.append(f"      {finding.advice}")
    return lines


def _section(paint: Paint, title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield ""
        yield paint.bold(title)
        yield from lines
