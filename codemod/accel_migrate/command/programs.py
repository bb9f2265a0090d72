"""From the paths on the command line to the programs they name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from accel_migrate.command.discover import discover, entries
from accel_migrate.errors import UserError
from accel_migrate.project import Project, Reader, load_project


def find_programs(paths: Sequence[Path], errors: list[str]) -> list[Project]:
    """A project for every file, and for every program in a folder; what cannot be read goes into `errors`."""
    files = [path for path in paths if not path.is_dir()]
    folders = [path for path in paths if path.is_dir()]
    found = discover(folders)
    reader = Reader()
    given = _load(discover(files), reader, errors)
    programs = entries(_load(found, reader, errors))
    return given + [project for project in programs if not _is_in(project, given)]


def _load(files: Sequence[Path], reader: Reader, errors: list[str]) -> list[Project]:
    projects = []
    for file in files:
        try:
            projects.append(load_project(file, reader))
        except UserError as error:
            errors.append(str(error))
    return projects


def _is_in(project: Project, others: Sequence[Project]) -> bool:
    path = os.path.realpath(project.entry.path)
    return any(path == os.path.realpath(other.entry.path) for other in others)
