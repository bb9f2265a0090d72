"""The report of a run as JSON, for editors and CI."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from accel_migrate.report.diff import unified
from accel_migrate.report.outcome import Changed, Item, Outcome, Run
from accel_migrate.report.text import count

VERSION = 1
"""Raised when a key changes its meaning or goes; new keys may come at any time."""


def as_json(run: Run) -> str:
    """One JSON object."""
    import json

    document = {
        "version": VERSION,
        "programs": [_program(outcome) for outcome in run.outcomes],
        "written": [str(path) for path in run.written],
        "errors": run.errors,
        "summary": asdict(count(run.outcomes)),
    }
    return json.dumps(document, indent=2)


def _program(outcome: Outcome) -> dict[str, Any]:
    return {
        "path": str(outcome.path),
        "status": outcome.status,
        "reason": outcome.reason,
        "files": [_file(change) for change in outcome.changes],
        "held_back": [_edit(edit) for edit in outcome.held_back],
        "findings": [_finding(finding) for finding in outcome.findings],
        "notes": list(outcome.notes),
        "explanation": outcome.explanation,
        "launch": outcome.launch if outcome.status == "changed" else None,
    }


def _file(change: Changed) -> dict[str, Any]:
    return {
        "path": str(change.source.path),
        "edits": [_edit(edit) for edit in change.edits],
        "diff": "".join(f"{line}\n" for line in unified(change)),
    }


def _edit(edit: Item) -> dict[str, Any]:
    placed = edit.place.line is not None
    return {
        "path": edit.place.path,
        **_cell(edit),
        "line": edit.place.line,
        "column": edit.place.column if placed else None,
        "kind": edit.kind,
        "rule": edit.rule,
        "why": edit.message,
    }


def _finding(finding: Item) -> dict[str, Any]:
    return {
        "path": finding.place.path,
        **_cell(finding),
        "line": finding.place.line or 1,
        "column": finding.place.column,
        "rule": finding.rule,
        "severity": finding.severity.value,
        "message": finding.message,
        "advice": finding.advice,
    }


def _cell(item: Item) -> dict[str, int]:
    """In a notebook, the cell in which `line` is counted."""
    return {} if item.place.cell is None else {"cell": item.place.cell}
