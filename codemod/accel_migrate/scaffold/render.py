"""Answers -> files, in memory."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from accel_migrate.scaffold import catalog
from accel_migrate.scaffold.answers import Answers

Files = dict[str, str]
"""Path inside the project -> text."""
_SUFFIX = ".jinja"
_RUNTIME = ["accel-migrate[runtime]", "numpy", "pyyaml>=6"]


def project(answers: Answers) -> Files:
    """All files of a new project; `answers` have been checked."""
    task = catalog.tasks()[answers.task]
    strategy = catalog.strategies()[answers.strategy]
    tracker = catalog.TRACKERS[answers.tracker]
    chosen = [place for name, place in catalog.places().items() if name in answers.places]
    settings = _settings(task)
    context: dict[str, Any] = {
        **vars(answers),
        "task": task,
        "strategy": strategy,
        "settings": settings,
        "names": [setting["name"] for setting in settings],
        "packages": sorted([*_RUNTIME, *task.packages, *strategy.needs, *([tracker] if tracker else [])]),
        "places": [{**vars(place), "readme": _readme(place, vars(answers))} for place in chosen],
    }
    files = {**_tree("project", context), **_tree(f"tasks/{answers.task}", context)}
    return files | launch_files(answers.places, answers.name, "train.py", "pyproject.toml")


def launch_files(places: Sequence[str], name: str, script: str, requirements: str) -> Files:
    """What it takes to run `script` at `places`.

    Args:
        places: names of places.
        name: of the jobs and images.
        script: its path inside the project.
        requirements: the file that lists the packages, "pyproject.toml" or "requirements.txt"; "" without one.
    """
    files: Files = {}
    for place in places:
        files |= _tree(f"places/{place}/files", {"name": name, "script": script, "requirements": requirements})
    return files


def _settings(task: catalog.Task) -> list[dict[str, Any]]:
    common = [
        {"name": name, "value": task.values[name], "about": about} for name, about in catalog.common_settings().items()
    ]
    return [{**setting, "type": type(setting["value"]).__name__} for setting in (*common, *task.settings)]


def _readme(place: catalog.Place, context: dict[str, Any]) -> str:
    path = f"places/{place.name}/README.md{_SUFFIX}"
    if not (catalog.folder() / path).is_file():
        return ""
    return _environment().get_template(path).render(context).strip()


def _tree(folder: str, context: dict[str, Any]) -> Files:
    """The files of a folder of the templates, but for the YAML that describes it."""
    root = catalog.folder() / folder
    return {_target(root, path): _rendered(path, context) for path in _files(root)}


def _files(root: Path) -> Iterator[Path]:
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.name not in ("task.yaml", "place.yaml"):
            yield path


def _target(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix().removesuffix(_SUFFIX)


def _rendered(path: Path, context: dict[str, Any]) -> str:
    if path.suffix != _SUFFIX:
        return path.read_text(encoding="utf-8")
    template = _environment().get_template(path.relative_to(catalog.folder()).as_posix())
    return template.render(context).rstrip() + "\n"


@functools.cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(catalog.folder()),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
