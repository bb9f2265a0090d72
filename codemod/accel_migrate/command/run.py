"""One run of `accel-migrate`: load, migrate, write, report."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from accel_migrate.check.selection import is_check
from accel_migrate.command.launching import launch_files_for
from accel_migrate.command.options import check_flags, options_for
from accel_migrate.command.programs import find_programs
from accel_migrate.command.progress import with_progress
from accel_migrate.command.show import show
from accel_migrate.command.targets import files_to_write, is_notebook, output_path
from accel_migrate.command.verify_modules import script_named
from accel_migrate.command.work import migrate_all
from accel_migrate.command.write import write_all
from accel_migrate.notebook.names import missing_names
from accel_migrate.project import Project
from accel_migrate.report.launch_line import launch_line
from accel_migrate.report.outcome import Outcome, Run, outcome_of
from accel_migrate.report.text import for_a_person
from accel_migrate.result import Options, Result
from accel_migrate.scaffold.writing import write as write_new
from accel_migrate.selection import known_rules, unknown_rule
from accel_migrate.suppress import named_rules

Migrate = Callable[[Project, Options], Result]


def run(arguments: argparse.Namespace, migrate: Migrate | None = None) -> int:
    """Do what the parsed command line asks and return the exit status.

    Raises:
        UserError: nothing could be done at all.
    """
    if arguments.list_rules:
        return _list_rules()
    check_flags(arguments)
    done = Run()
    if arguments.module:
        arguments.paths = [os.fspath(script_named(path, True).file) for path in arguments.paths]
    projects = find_programs([Path(path) for path in arguments.paths], done.errors)
    for result in with_progress(_results(projects, arguments, migrate), len(projects)):
        if isinstance(result, str):
            done.errors.append(result)
        else:
            done.outcomes.append(result)
    if not arguments.explain:
        _write(arguments, done)
    show(arguments, done)
    return max(_status(arguments, done), _verified(arguments, done) if arguments.verify else 0)


def _list_rules() -> int:
    rules = known_rules()
    width = max(map(len, rules), default=0)
    for rule, title in sorted(rules.items()):
        print(f"{rule:{width}}  {title}")
    return 0


def _results(
    projects: Sequence[Project], arguments: argparse.Namespace, migrate: Migrate | None
) -> Iterator[Outcome | str]:
    if not projects:
        return iter(())
    if migrate is None:
        from accel_migrate.migrate import migrate
    return migrate_all(projects, _Job(arguments, migrate), arguments.jobs)


@dataclass(frozen=True)
class _Job:
    """The migration of one program as the command line asks for it."""

    arguments: argparse.Namespace
    migrate: Migrate

    def __call__(self, project: Project) -> Outcome:
        script, folder = project.entry.path, self.arguments.output
        options = options_for(script, self.arguments)
        result = self.migrate(project, options)
        if folder is None:
            place = script
        else:
            place = Path(folder) if options.as_script or is_notebook(folder) else output_path(project.entry, project.root, Path(folder))
        outcome = outcome_of(result, launch_line(project, options.target, place))
        notes = [*outcome.notes, *_idle_comments(project), *(missing_names(project.entry) if options.as_script else ())]
        return replace(outcome, notes=notes)


def _idle_comments(project: Project) -> Iterator[str]:
    """Comments that are to switch off rules which there are not."""
    for source in project.sources.values():
        for line, rule in named_rules(source):
            if rule not in known_rules() and not is_check(rule):
                yield f"{source.where(line or 1)}: a comment ignores an {unknown_rule(rule)}"


def _write(arguments: argparse.Namespace, done: Run) -> None:
    files = files_to_write(done.outcomes, arguments.write, arguments.output)
    launching = list(launch_files_for(done.outcomes, arguments))
    write_all(files)
    done.written = [path for path, _, _ in files]
    for root, texts in launching:
        done.written += write_new(root, texts)


def _verified(arguments: argparse.Namespace, done: Run) -> int:
    """The exit status of the verification; 0 where nothing was migrated."""
    from accel_migrate.command.verify import run
    from accel_migrate.command.verify_migration import text_to_run
    from accel_migrate.verify.jobs import job_for

    for outcome in done.outcomes:
        if outcome.changes:
            script = outcome.project.entry.path
            texts = {change.source.path: text_to_run(change.source, change.after) for change in outcome.changes}
            module = script_named(arguments.paths[0], True).module if arguments.module else ""
            before = {change.source.path: text_to_run(change.source, change.source.text) for change in outcome.changes}
            jobs = [job_for(script, arguments.script_args, module, changed) for changed in (before, texts)]
            print()
            return run(arguments, *jobs)
    return 0


def _status(arguments: argparse.Namespace, done: Run) -> int:
    if done.errors:
        return 2
    if all(outcome.status == "refused" for outcome in done.outcomes):
        return 0 if arguments.allow_nothing else 3
    would_change = any(outcome.changes for outcome in done.outcomes)
    if arguments.check and would_change:
        return 1
    return int(any(for_a_person(outcome.findings) for outcome in done.outcomes))
