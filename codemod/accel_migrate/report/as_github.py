"""Findings as workflow commands, which GitHub shows beside the lines of a pull request.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

from collections.abc import Iterator

from accel_migrate.edits import Severity
from accel_migrate.report.outcome import Item, Run
from accel_migrate.report.text import count

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def as_github(run: Run, with_edits: bool, tool: str = "accel-migrate", summary: str = "") -> Iterator[str]:
    """One command for each finding and error, and with `with_edits` for each edit; then `summary`, by default the numbers of the run."""
    shown: dict[str, None] = {}
    for outcome in run.outcomes:
        for finding in outcome.findings:
            text = f"{finding.message}\n{finding.advice}" if finding.advice else finding.message
            shown[_command(_LEVELS[finding.severity], finding, text)] = None
        for edit in (edit for change in outcome.changes if with_edits for edit in change.edits):
            if edit.message:  # an import that goes with its last use is part of another edit
                shown[_command("notice", edit, f"would be changed: {edit.message}")] = None
    shown.update((f"::error title={tool}::{_data(error)}", None) for error in run.errors)
    yield from shown
    yield summary or str(count(run.outcomes))


def _command(level: str, item: Item, text: str) -> str:
    place = item.place
    properties: dict[str, object] = {"file": place.path, "line": 1 if place.cell is not None else place.line or 1}
    if place.cell is not None:  # the lines of the file are none that anybody sees
        text = f"cell {place.cell}, line {place.line}: {text}"
    elif place.line is not None:
        properties["endLine"] = place.end_line
        if place.line == place.end_line:  # columns are for commands on one line
            properties |= {"col": place.column, "endColumn": place.end_column}
    properties["title"] = item.rule
    return f"::{level} {','.join(f'{key}={_property(str(value))}' for key, value in properties.items())}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
