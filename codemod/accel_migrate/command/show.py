"""Prints what a run did, in the format that was asked for."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator

from accel_migrate.report.diff import Paint
from accel_migrate.report.outcome import Run
from accel_migrate.report.text import count, diff_lines, report_lines, why_unchanged


def show(arguments: argparse.Namespace, done: Run) -> None:
    """Print the report: to standard output, and what a person should read beside a diff to standard error."""
    if arguments.format != "text":
        _print_all(_in_format(arguments, done))
        return
    _print_all(_explanations(done) if arguments.explain else _text(arguments, done))
    if arguments.diff:
        for outcome in done.outcomes:
            if outcome.status != "changed":
                print(why_unchanged(outcome), file=sys.stderr)
    for error in done.errors:
        print(f"error: {error}", file=sys.stderr)
    if not arguments.explain:
        print(count(done.outcomes), file=sys.stderr if arguments.diff else sys.stdout)


def _print_all(lines: Iterator[str]) -> None:
    for line in lines:
        print(line)
    sys.stdout.flush()


def _in_format(arguments: argparse.Namespace, done: Run) -> Iterator[str]:
    with_edits: bool = arguments.check
    if arguments.format == "json":
        from accel_migrate.report.as_json import as_json

        yield as_json(done)
    elif arguments.format == "sarif":
        from accel_migrate.report.as_sarif import as_sarif

        yield as_sarif(done, with_edits)
    elif arguments.format == "github":
        from accel_migrate.report.as_github import as_github

        yield from as_github(done, with_edits)
    else:
        from accel_migrate.report.as_markdown import as_markdown

        yield from as_markdown(done)


def _explanations(done: Run) -> Iterator[str]:
    for number, outcome in enumerate(done.outcomes):
        yield from [""] if number else []
        yield outcome.explanation.rstrip("\n") or f"{outcome.path}: {outcome.reason}"


def _text(arguments: argparse.Namespace, done: Run) -> Iterator[str]:
    paint = Paint(wants_colour(arguments))
    shows_diff = arguments.diff or not (arguments.check or done.written)
    for outcome in done.outcomes:
        if shows_diff:
            yield from diff_lines(outcome, paint)
        if not arguments.diff:
            yield from ([""] if shows_diff and outcome.changes else [])
            yield from report_lines(outcome, paint, bool(done.written))
            yield ""
    if not arguments.diff:
        yield from _what_was_written(arguments, done)


def _what_was_written(arguments: argparse.Namespace, done: Run) -> Iterator[str]:
    if done.written:
        beside = "" if arguments.output is None else " (Python files only: data beside the script stays where it is)"
        yield f"Wrote {', '.join(map(str, done.written))}{beside}"
    elif not arguments.check and any(outcome.changes for outcome in done.outcomes):
        yield "Nothing was written: add --write (in place) or --output DIR"
    elif not done.outcomes and not done.errors:
        yield f"{', '.join(arguments.paths)}: no Python file there looks like PyTorch training"


def wants_colour(arguments: argparse.Namespace) -> bool:
    if arguments.no_color or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stdout.isatty()
