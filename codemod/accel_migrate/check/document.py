"""The linter for one file as an editor holds it: its faults, and its text after one of them is mended."""

from __future__ import annotations

from pathlib import Path

from accel_migrate.check.alarms import Fault
from accel_migrate.check.check import Wanted, check
from accel_migrate.errors import UserError
from accel_migrate.project import Project, load_project
from accel_migrate.source import Source, parse


def faults_of(path: Path, text: str, wanted: Wanted | None = None) -> list[Fault] | None:
    """The faults in the file `path`, whose text in the editor is `text`; None where it is no Python while it is being written.

    What it imports from its project is read from the disk.
    """
    try:
        parse(text, str(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    project = _project(path, text)
    return [fault for fault in check(project, wanted or Wanted()).faults if fault.source is project.entry]


def mended(fault: Fault) -> str:
    """The text of the file after the fix of `fault`, which has one."""
    from accel_migrate.rewrite import rewrite

    assert fault.fix is not None
    return rewrite(fault.source, list(fault.fix.edits))


def _project(path: Path, text: str) -> Project:
    try:
        project = load_project(path)
    except UserError:  # it was never saved, or is no Python on the disk
        entry = Source(path, text, module=path.stem)
        return Project(entry, {path.stem: entry}, path.parent)
    return project.with_texts({project.entry.path: text})
