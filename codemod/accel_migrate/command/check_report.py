"""What a check found, in the format that was asked for."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

from accel_migrate.check.selection import page_folder
from accel_migrate.command.show import wants_colour
from accel_migrate.edits import Severity
from accel_migrate.report.diff import Paint
from accel_migrate.report.outcome import Item, Run
from accel_migrate.report.text import diff_lines

VERSION = 1
"""Raised when a key of the JSON document changes its meaning or goes; new keys may come at any time."""


def report(arguments: argparse.Namespace, done: Run) -> None:
    """Print the report; with `--diff` only the diff goes to standard output."""
    lines = _in_format(arguments, done) if arguments.format != "text" else _text(arguments, done)
    for line in lines:
        print(line)
    sys.stdout.flush()
    if arguments.format == "text":
        for error in done.errors:
            print(f"error: {error}", file=sys.stderr)
        print(summary(arguments, done), file=sys.stderr if arguments.diff else sys.stdout)


def found(done: Run) -> list[Item]:
    """What was found; a file that several programs have in common counts once."""
    return list(dict.fromkeys(item for outcome in done.outcomes for item in outcome.findings))


def summary(arguments: argparse.Namespace, done: Run) -> str:
    """The last line: `2 errors, 1 warning in 3 programs; 1 can be mended with --fix`."""
    counts = Counter(item.severity for item in found(done))
    texts = [f"{counts[s]} {name}{'' if counts[s] == 1 or name == 'info' else 's'}" for s, name in _NAMES if counts[s]]
    programs = sum(outcome.status != "refused" for outcome in done.outcomes)
    if done.outcomes and not programs:
        return "nothing was checked: nothing is accelerated yet"
    line = f"{', '.join(texts) or 'nothing wrong'} in {programs} program{'' if programs == 1 else 's'}"
    mended = sum(outcome.mended for outcome in done.outcomes)
    if mended:
        return f"{line}; {mended} {'would be ' if arguments.diff else ''}mended"
    fixes = Counter(item.fix for item in found(done))
    hints = [
        f"{fixes[kind]} can be mended with {flag}"
        for kind, flag in (("safe", "--fix"), ("unsafe", "--unsafe-fixes"))
        if fixes[kind]
    ]
    return "; ".join([line, *hints])


_NAMES = ((Severity.ERROR, "error"), (Severity.WARNING, "warning"), (Severity.INFO, "info"))


def _text(arguments: argparse.Namespace, done: Run) -> Iterator[str]:
    paint = Paint(wants_colour(arguments))
    if arguments.diff:
        for outcome in done.outcomes:
            yield from diff_lines(outcome, paint)
        return
    for item in found(done):
        yield f"{paint.bold(str(item.place))}: {item.severity.value}: {item.rule}: {item.message}"
        if item.advice:
            yield f"    {item.advice}"
    for outcome in done.outcomes:
        if outcome.status == "refused":
            yield f"{outcome.path}: not checked: {outcome.reason}"
    if done.written:
        yield f"Wrote {', '.join(map(str, done.written))}"


def _in_format(arguments: argparse.Namespace, done: Run) -> Iterator[str]:
    if arguments.format == "json":
        yield _as_json(done)
    elif arguments.format == "sarif":
        from accel_migrate.check.rules import all_checks
        from accel_migrate.report.as_sarif import Tool, as_sarif, rules_of_the_codemod

        rules = rules_of_the_codemod() | {c.id: (c.title, c.why) for c in all_checks()}
        yield as_sarif(done, False, Tool("accel-check", page_folder, rules))
    else:
        from accel_migrate.report.as_github import as_github

        yield from as_github(done, False, "accel-check", summary(arguments, done))


def _as_json(done: Run) -> str:
    import json

    items = found(done)
    counts = Counter(item.severity.value for item in items)
    document = {
        "version": VERSION,
        "programs": [
            {"path": str(o.path), "checked": o.status != "refused", "reason": o.reason, "mended": o.mended}
            for o in done.outcomes
        ],
        "findings": [_finding(item) for item in items],
        "written": [str(path) for path in done.written],
        "errors": done.errors,
        "summary": {name: counts[severity.value] for severity, name in _NAMES},
    }
    return json.dumps(document, indent=2)


def _finding(item: Item) -> dict[str, Any]:
    place = item.place
    return {
        "path": place.path,
        **({} if place.cell is None else {"cell": place.cell}),
        "line": place.line or 1,
        "column": place.column,
        "end_line": place.end_line,
        "end_column": place.end_column,
        "rule": item.rule,
        "severity": item.severity.value,
        "message": item.message,
        "advice": item.advice,
        "fix": item.fix or None,
        "docs": f"{page_folder(item.rule)}/{item.rule}.md",
    }
