"""Find the training scripts of a folder without parsing everything in it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from accel_migrate.errors import UserError
from accel_migrate.project import Project

_SKIPPED = {"__pycache__", "node_modules", "site-packages", "dist-packages", "build", "dist", "venv"}
_TRAINING = re.compile(rb"\.backward\(|DataLoader|\boptim\b|optimizer")
_MAIN_GUARD = re.compile(r"^if\b(?=.*__name__)(?=.*__main__)", re.MULTILINE)


def discover(paths: Iterable[Path]) -> list[Path]:
    """The given files, and the files below the given folders which look like PyTorch training, each once.

    Hidden folders, virtual environments, caches and build outputs are skipped; links to folders are not followed.
    """
    found: dict[str, Path] = {}
    for path in paths:
        for file in _training_files(path) if path.is_dir() else (path,):
            found.setdefault(os.path.realpath(file), file)
    return list(found.values())


def looks_like_training(data: bytes) -> bool:
    """Whether a file with these bytes is worth parsing."""
    return b"torch" in data and _TRAINING.search(data) is not None


def entries(projects: Iterable[Project]) -> list[Project]:
    """The programs among `projects`: those which are run rather than imported.

    A file which another one imports is a part of that one's program, unless it has a main guard of its own. Files which
    only import each other are all kept, so that none is passed over.
    """
    projects = list(projects)
    files = [{os.path.realpath(source.path) for source in project.sources.values()} for project in projects]
    names = [os.path.realpath(project.entry.path) for project in projects]
    programs = [
        number
        for number, project in enumerate(projects)
        if _MAIN_GUARD.search(project.entry.text)
        or not any(names[number] in others for other, others in enumerate(files) if other != number)
    ]
    covered = set().union(*(files[number] for number in programs))
    return [project for number, project in enumerate(projects) if number in programs or names[number] not in covered]


def _training_files(folder: Path) -> Iterator[Path]:
    for here, folders, names in os.walk(folder, onerror=_cannot_list):
        folders[:] = sorted(name for name in folders if _is_searched(Path(here, name)))
        for name in sorted(names):
            file = Path(here, name)
            if name.endswith((".py", ".ipynb")) and _is_candidate(file):
                yield file


def _is_searched(folder: Path) -> bool:
    hidden = folder.name.startswith(".") or folder.name in _SKIPPED
    return not hidden and not (folder / "pyvenv.cfg").exists()


def _is_candidate(file: Path) -> bool:
    try:
        return file.is_file() and looks_like_training(file.read_bytes())
    except OSError:
        return True  # reading it again says what is wrong with it


def _cannot_list(error: OSError) -> None:
    raise UserError(f"{error.filename}: cannot be listed: {error.strerror}")
