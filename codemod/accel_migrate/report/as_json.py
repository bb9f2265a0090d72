"""The report of a run as JSON, for editors and CI."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from accel_migrate.edits import Edit, Finding
from accel_migrate.places import column_of, line_of, node_of
from accel_migrate.report.diff import unified
from accel_migrate.report.text import count, ordered
from accel_migrate.result import FileChange, Result

VERSION = 1
"""Raised when a key changes its meaning or goes; new keys may come at any time."""


def as_json(results: Sequence[Result], launches: Sequence[str], written: Sequence[Path], errors: Sequence[str]) -> str:
    """One JSON object; `launches` holds one command per result, `written` the files which the run wrote."""
    import json

    document = {
        "version": VERSION,
        "programs": [_program(result, launch) for result, launch in zip(results, launches, strict=True)],
        "written": [str(path) for path in written],
        "errors": list(errors),
        "summary": asdict(count(results)),
    }
    return json.dumps(document, indent=2)


def _program(result: Result, launch: str) -> dict[str, Any]:
    return {
        "path": str(result.project.entry.path),
        "status": result.status,
        "reason": result.reason,
        "files": [_file(change) for change in ordered(result)],
        "held_back": [_edit(edit) for edit in result.held_back],
        "findings": [_finding(finding) for finding in result.findings],
        "notes": [*result.notes, *result.project.notes],
        "explanation": result.explanation,
        "launch": launch if result.status == "changed" else None,
    }


def _file(change: FileChange) -> dict[str, Any]:
    return {
        "path": str(change.source.path),
        "edits": [_edit(edit) for edit in sorted(change.edits, key=_place)],
        "diff": "".join(f"{line}\n" for line in unified(change)),
    }


def _place(edit: Edit) -> tuple[float, int]:
    """By line and column; edits of the file as a whole come last."""
    return (line_of(edit), column_of(edit)) if node_of(edit) is not None else (float("inf"), 0)


def _edit(edit: Edit) -> dict[str, Any]:
    placed = node_of(edit) is not None
    return {
        "path": str(edit.source.path),
        "line": line_of(edit) if placed else None,
        "column": column_of(edit) if placed else None,
        "kind": type(edit).__name__,
        "rule": edit.rule,
        "why": edit.why,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "path": str(finding.source.path),
        "line": line_of(finding),
        "column": column_of(finding),
        "rule": finding.rule,
        "severity": finding.severity.value,
        "message": finding.message,
        "advice": finding.advice,
    }
