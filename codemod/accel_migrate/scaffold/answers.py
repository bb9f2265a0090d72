"""What a project is to be: checked before anything is rendered."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from accel_migrate.errors import UserError
from accel_migrate.scaffold import catalog

_NAME = re.compile(r"[a-z](?:-?[a-z0-9])*")
_LONGEST = 40
"""Kubernetes allows 63 characters for what it names after a job, numbers included."""
_TAKEN = {"accel", "config", "data", "model", "train", "torch", "transformers", "test", "tests", "runs"}
"""Modules of the project, what it depends on, and `test`, which Python leaves out of `stdlib_module_names`."""


@dataclass(frozen=True)
class Answers:
    """One project.

    Attributes:
        name: of the project, its folder and its jobs.
        places: besides the local machine.
        checkpoints: whether it saves its state and goes on from there.
    """

    name: str
    task: str = "image-classification"
    strategy: str = "ddp"
    precision: str = "no"
    tracker: str = "csv"
    checkpoints: bool = True
    places: tuple[str, ...] = ()


def checked(answers: Answers) -> Answers:
    """`answers`, if they go together.

    Raises:
        UserError: which one does not, and what there is instead.
    """
    check_name(answers.name)
    tasks = catalog.tasks()
    _one_of("task", answers.task, tasks)
    _one_of("strategy", answers.strategy, catalog.strategies())
    _one_of("precision", answers.precision, catalog.PRECISIONS)
    _one_of("tracker", answers.tracker, catalog.TRACKERS)
    check_places(answers.places)
    suitable = tasks[answers.task].strategies
    if answers.strategy not in suitable:
        raise UserError(f"strategy {answers.strategy} does not suit {answers.task}, which has: {', '.join(suitable)}")
    return answers


def check_name(name: str) -> None:
    """A name serves as project, folder, job and container.

    Raises:
        UserError: it does not, with one that would.
    """
    if name in _TAKEN or name in sys.stdlib_module_names:
        raise UserError(f"the name {name!r} is taken by a module: call the project {name}-project, for example")
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        near = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-0123456789")[:_LONGEST].rstrip("-")
        instead = f"; {near} would do" if near and _NAME.fullmatch(near) else ""
        raise UserError(
            f"the name {name!r} is not made of at most {_LONGEST} lower-case letters, digits and single hyphens, beginning with a letter{instead}"
        )


def check_places(names: Iterable[str]) -> None:
    """Raise a UserError for a place that there is not."""
    for name in names:
        _one_of("place", name, catalog.places())


def from_file(path: Path) -> dict[str, Any]:
    """The answers that a YAML file gives, by the names of `Answers`.

    Raises:
        UserError: it cannot be read, or an entry is unknown or of another type.
    """
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"--answers {path}: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise UserError(f"--answers {path}: it holds no entries of the form task: image-classification")
    known = Answers.__dataclass_fields__
    for key, value in values.items():
        _one_of(f"{path}: entry", str(key), known)
        values[key] = _typed(f"{path}: {key}", key, value)
    return values


def _typed(where: str, key: str, value: Any) -> Any:
    if key == "precision" and value is False:  # YAML reads `no` so
        return "no"
    if key == "places":
        value = [value] if isinstance(value, str) else value
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return tuple(value)
        raise UserError(f"{where} is {value!r}, and takes a list such as [slurm, docker]")
    wanted = bool if key == "checkpoints" else str
    if not isinstance(value, wanted):
        raise UserError(f"{where} is {value!r}, and takes {'true or false' if wanted is bool else 'a word'}")
    return value


def _one_of(what: str, given: str, allowed: Iterable[str]) -> None:
    names = list(allowed)
    if given not in names:
        near = difflib.get_close_matches(given, names, 1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise UserError(f"{what} {given!r} is not one of {', '.join(names)}{hint}")
