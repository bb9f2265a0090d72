"""One run of `accel-migrate`: load, migrate, report, write."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from accel_migrate.command.options import options_for
from accel_migrate.command.programs import find_programs
from accel_migrate.command.targets import files_to_write, output_path
from accel_migrate.command.write import write_all
from accel_migrate.errors import UserError, internal_error
from accel_migrate.project import Project
from accel_migrate.report.diff import Paint
from accel_migrate.report.text import count, diff_lines, for_a_person, launch_line, report_lines, why_unchanged
from accel_migrate.result import Options, Result

Migrate = Callable[[Project, Options], Result]


@dataclass
class _Run:
    """What has come out so far."""

    results: list[Result] = field(default_factory=list)
    launches: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)


def run(arguments: argparse.Namespace, migrate: Migrate | None = None) -> int:
    """Do what the parsed command line asks and return the exit status.

    Raises:
        UserError: nothing could be done at all.
    """
    if arguments.list_rules:
        return _list_rules()
    outcome = _Run()
    for project in find_programs([Path(path) for path in arguments.paths], outcome.errors):
        _migrate(project, arguments, migrate or _pipeline(), outcome)
    if not arguments.explain:
        _write(arguments, outcome)
    _print(arguments, outcome)
    return _status(arguments, outcome)


def _list_rules() -> int:
    from accel_migrate.command.options import known_rules

    rules = known_rules()
    width = max(map(len, rules), default=0)
    for rule, title in sorted(rules.items()):
        print(f"{rule:{width}}  {title}")
    return 0


def _pipeline() -> Migrate:
    from accel_migrate.migrate import migrate

    return migrate


def _migrate(project: Project, arguments: argparse.Namespace, migrate: Migrate, outcome: _Run) -> None:
    """Whatever goes wrong with one program, the others go on."""
    script = project.entry.path
    try:
        options = options_for(script, arguments)
        outcome.results.append(migrate(project, options))
    except UserError as error:
        outcome.errors.append(str(error))
    except RecursionError:
        outcome.errors.append(f"{script}: the program is too deeply nested to be analysed; it was left alone")
    except Exception as error:
        outcome.errors.append(f"{script}: was left alone: {internal_error(error)}")
    else:
        place = script if arguments.output is None else output_path(project.entry, project.root, Path(arguments.output))
        outcome.launches.append(launch_line(project, options.target, place))


def _write(arguments: argparse.Namespace, outcome: _Run) -> None:
    files = files_to_write(outcome.results, arguments.write, arguments.output)
    write_all(files)
    outcome.written = [path for path, _, _ in files]


def _print(arguments: argparse.Namespace, outcome: _Run) -> None:
    if arguments.format == "json":
        from accel_migrate.report.as_json import as_json

        print(as_json(outcome.results, outcome.launches, outcome.written, outcome.errors))
        return
    for line in _explanations(outcome) if arguments.explain else _text(arguments, outcome):
        print(line)
    sys.stdout.flush()
    if arguments.diff:
        for result in outcome.results:
            if result.status != "changed":
                print(why_unchanged(result), file=sys.stderr)
    for error in outcome.errors:
        print(f"error: {error}", file=sys.stderr)
    if not arguments.explain:
        print(count(outcome.results), file=sys.stderr if arguments.diff else sys.stdout)


def _explanations(outcome: _Run) -> Iterator[str]:
    for result in outcome.results:
        yield result.explanation.rstrip("\n") or f"{result.project.entry.path}: {result.reason}"


def _text(arguments: argparse.Namespace, outcome: _Run) -> Iterator[str]:
    paint = Paint(_wants_colour(arguments))
    shows_diff = arguments.diff or not (arguments.check or outcome.written)
    for result, launch in zip(outcome.results, outcome.launches, strict=True):
        if shows_diff:
            yield from diff_lines(result, paint)
        if not arguments.diff:
            yield from ([""] if shows_diff and result.changes else [])
            yield from report_lines(result, paint, launch)
            yield ""
    if not arguments.diff:
        yield from _what_was_written(arguments, outcome)


def _what_was_written(arguments: argparse.Namespace, outcome: _Run) -> Iterator[str]:
    if outcome.written:
        beside = "" if arguments.output is None else " (Python files only: data beside the script stays where it is)"
        yield f"Wrote {', '.join(map(str, outcome.written))}{beside}"
    elif not arguments.check and any(result.changes for result in outcome.results):
        yield "Nothing was written: add --write (in place) or --output DIR"
    elif not outcome.results and not outcome.errors:
        yield f"{', '.join(arguments.paths)}: no Python file there looks like PyTorch training"


def _wants_colour(arguments: argparse.Namespace) -> bool:
    if arguments.no_color or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stdout.isatty()


def _status(arguments: argparse.Namespace, outcome: _Run) -> int:
    if outcome.errors:
        return 2
    if all(result.status == "refused" for result in outcome.results):
        return 3
    would_change = any(result.changes for result in outcome.results)
    if arguments.check and would_change:
        return 1
    return int(any(for_a_person(result.findings) for result in outcome.results))
