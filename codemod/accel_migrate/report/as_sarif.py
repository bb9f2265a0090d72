"""The report of a run in SARIF 2.1.0, for code scanning.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/sarif-v2.1.0-errata01-os-complete.html
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from accel_migrate import __version__
from accel_migrate.edits import Severity
from accel_migrate.report.outcome import Item, Place, Run

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_FINGERPRINT = "accelMigrate/v1"


@dataclass(frozen=True)
class Tool:
    """Who says what a log holds."""

    name: str
    pages: Callable[[str], str]
    """The folder with the page of a rule."""
    rules: Mapping[str, tuple[str, str]]
    """Id -> title, and why it matters."""


def as_sarif(run: Run, with_edits: bool, tool: Tool | None = None) -> str:
    """One SARIF log with one run; its results are the findings, and with `with_edits` the edits too. `tool`: the codemod by default."""
    import json

    found = dict.fromkeys(_found(run, with_edits))
    tool = tool or _codemod()
    rules = [_rule(tool, name, *tool.rules.get(name, (name, ""))) for name in sorted({item.rule for item in found})]
    numbers = {rule["id"]: number for number, rule in enumerate(rules)}
    seen: Counter[str] = Counter()
    log = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": tool.name, "semanticVersion": __version__, "rules": rules}},
                "columnKind": "unicodeCodePoints",
                "invocations": [_invocation(run)],
                "results": [_result(item, numbers[item.rule], seen) for item in found],
            }
        ],
    }
    return json.dumps(log, indent=2)


def _found(run: Run, with_edits: bool) -> Iterator[Item]:
    for outcome in run.outcomes:
        yield from outcome.findings
        for change in outcome.changes if with_edits else ():
            yield from change.edits


def rules_of_the_codemod() -> dict[str, tuple[str, str]]:
    """Title and reason of every id that the codemod reports."""
    from accel_migrate.rules import all_rules

    known = {rule.id: (rule.title, rule.why) for rule in all_rules()}
    known |= {name: (title, rule.why) for rule in all_rules() for name, title in rule.findings.items() if name not in known}
    return known


def _codemod() -> Tool:
    return Tool("accel-migrate", lambda name: "docs/rules", rules_of_the_codemod())


def _rule(tool: Tool, name: str, title: str, why: str) -> dict[str, Any]:
    page = f"{tool.pages(name)}/{name}.md"
    return {
        "id": name,
        "shortDescription": {"text": f"{title}."},
        "help": {"text": f"{title}: {why} (see {page})", "markdown": f"{title}: {why} [More]({page})"},
    }


def _result(item: Item, number: int, seen: Counter[str]) -> dict[str, Any]:
    text = f"would be changed: {item.message or item.rule}" if item.kind else item.in_one
    return {
        "ruleId": item.rule,
        "ruleIndex": number,
        "level": "note" if item.kind else _LEVELS[item.severity],
        "message": {"text": text},
        "locations": [_location(item.place)],
        "partialFingerprints": {_FINGERPRINT: _fingerprint(item, seen)},
    }


def _location(place: Place) -> dict[str, Any]:
    """The lines of a notebook's file are none that anybody sees: there it is the cell that is named."""
    physical: dict[str, Any] = {"artifactLocation": _artifact(place.path)}
    if place.cell is not None:
        name = f"cell {place.cell}, line {place.line}"
        return {"physicalLocation": physical, "logicalLocations": [{"fullyQualifiedName": name}]}
    if place.line is not None:
        physical["region"] = {
            "startLine": place.line,
            "startColumn": place.column,
            "endLine": place.end_line,
            "endColumn": place.end_column,
        }
    return {"physicalLocation": physical}


def _artifact(path: str) -> dict[str, str]:
    """Relative to the working directory, which is the repository's root in CI; else absolute."""
    relative = os.path.relpath(path)
    if relative.startswith(os.pardir):
        return {"uri": Path(os.path.abspath(path)).as_uri()}
    return {"uri": quote(Path(relative).as_posix()), "uriBaseId": "%SRCROOT%"}


def _fingerprint(item: Item, seen: Counter[str]) -> str:
    """The same as long as rule, file and the text of the line are, wherever the line moves."""
    identity = "\0".join((item.rule, Path(os.path.relpath(item.place.path)).as_posix(), item.text, item.kind))
    seen[identity] += 1
    return hashlib.sha256(f"{identity}\0{seen[identity]}".encode()).hexdigest()[:32]


def _invocation(run: Run) -> dict[str, Any]:
    notes = [f"{outcome.path}: {outcome.reason}" for outcome in run.outcomes if outcome.status == "refused"]
    return {
        "executionSuccessful": not run.errors,
        "toolExecutionNotifications": [
            {"level": level, "message": {"text": text}}
            for level, texts in (("error", run.errors), ("note", notes))
            for text in texts
        ],
    }
