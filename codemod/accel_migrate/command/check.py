"""`accel check`: find what is wrong in accelerated scripts, report it, mend what can be mended."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from accel_migrate.check.check import Checked, Wanted, check
from accel_migrate.check.selection import checked_names, known_checks
from accel_migrate.command.check_arguments import parse_check_arguments
from accel_migrate.command.check_report import report
from accel_migrate.command.cli import never_fail_to_print, silence_stdout
from accel_migrate.command.options import split_names
from accel_migrate.command.programs import find_programs
from accel_migrate.command.progress import with_progress
from accel_migrate.command.settings import CHECK, read_settings
from accel_migrate.command.targets import files_to_write
from accel_migrate.command.work import migrate_all
from accel_migrate.command.write import write_all
from accel_migrate.errors import UserError, internal_error
from accel_migrate.project import Project
from accel_migrate.report.outcome import Outcome, Run, outcome_of
from accel_migrate.report.text import for_a_person
from accel_migrate.result import FileChange, Result

NOTHING = "nothing in it is accelerated yet (it uses neither accel_runtime nor Hugging Face Accelerate): accel-migrate turns training into a multi-process one"


def main(argv: Sequence[str] | None = None) -> int:
    """Run `accel check` and return the exit status."""
    try:
        never_fail_to_print()
        return run(parse_check_arguments(argv))
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    except BrokenPipeError:
        silence_stdout()
        return 0
    except KeyboardInterrupt:
        print("accel check: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        print(
            f"accel check: error: {error if isinstance(error, UserError) else internal_error(error)}", file=sys.stderr
        )
        return 2


def run(arguments: argparse.Namespace) -> int:
    """Do what the parsed command line asks and return the exit status.

    Raises:
        UserError: nothing could be done at all.
    """
    if arguments.list_rules:
        return _list_rules()
    job = _Job(
        *(checked_names(split_names(getattr(arguments, key)), f"--{key}") for key in ("select", "ignore")),
        arguments.fix,
        arguments.unsafe_fixes,
    )
    done = Run()
    projects = find_programs([Path(path) for path in arguments.paths], done.errors)
    for result in with_progress(migrate_all(projects, job, arguments.jobs), len(projects), "accel check"):
        if isinstance(result, str):
            done.errors.append(result)
        else:
            done.outcomes.append(result)
    if not arguments.diff:
        files = files_to_write(done.outcomes, True, None)
        write_all(files)
        done.written = [path for path, _, _ in files]
    report(arguments, done)
    return _status(arguments, done)


def _list_rules() -> int:
    rules = known_checks()
    width = max(map(len, rules), default=0)
    for rule, title in rules.items():
        print(f"{rule:{width}}  {title}")
    return 0


@dataclass(frozen=True)
class _Job:
    """The check of one program as the command line asks for it: a flag beats the settings file; rules ignored in either are ignored."""

    select: frozenset[str]
    ignore: frozenset[str]
    fix: bool
    unsafe: bool

    def __call__(self, project: Project) -> Outcome:
        settings = read_settings(project.entry.path, CHECK)
        where = f"{settings.file}: [tool.{CHECK}]"
        select = checked_names(settings.select or (), f"{where} select")
        ignore = checked_names(settings.ignore or (), f"{where} ignore")
        return _outcome(
            project, check(project, Wanted(self.select or select, self.ignore | ignore, self.fix, self.unsafe))
        )


def _outcome(before: Project, checked: Checked) -> Outcome:
    """What every report is made of; the changes are those that mending made."""
    after = {source.path: source for source in checked.project.sources.values()}
    changes = [FileChange(s, after[s.path].text, []) for s in before.sources.values() if after[s.path].text != s.text]
    status = "changed" if changes else "unchanged" if checked.library else "refused"
    result = Result(before, status, "" if checked.library else NOTHING, changes, list(checked.faults))
    return replace(outcome_of(result), mended=checked.mended)


def _status(arguments: argparse.Namespace, done: Run) -> int:
    if done.errors:
        return 2
    if all(outcome.status == "refused" for outcome in done.outcomes):
        return 0 if arguments.allow_nothing else 3
    return int(any(for_a_person(outcome.findings) for outcome in done.outcomes))
