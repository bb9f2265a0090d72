"""What `templates/` offers: one folder for each task, one for each place, one table of strategies."""

from __future__ import annotations

import functools
import importlib.util
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from accel_migrate.resources import resource

PRECISIONS = ("no", "bf16", "fp16")
TRACKERS = {"none": "", "csv": "", "tensorboard": "tensorboard>=2.15", "wandb": "wandb>=0.17"}
"""Tracker of `Accelerator(log_with=)` -> the package that it needs besides the runtime."""


@dataclass(frozen=True)
class Task:
    """What a project trains: `templates/tasks/NAME/task.yaml`.

    Attributes:
        strategies: those of the installed runtime that its model can be trained with.
        packages: what it needs besides the runtime.
        values: setting -> value, for the settings that all tasks have.
        settings: its own: `name`, `value`, `about`.
        shown: the figure that tells how well it trains.
    """

    name: str
    title: str
    summary: str
    strategies: list[str]
    packages: list[str]
    values: dict[str, Any]
    settings: list[dict[str, Any]]
    shown: str


@dataclass(frozen=True)
class Strategy:
    """How a training is spread over processes: an entry of `templates/strategies.yaml`.

    Attributes:
        launch: its lines of `accel.yaml`.
        processes: the number that it needs, 0 for any.
        needs: packages besides the runtime.
    """

    name: str
    title: str
    launch: str
    processes: int = 0
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Place:
    """Where a project runs: `templates/places/NAME/place.yaml` and `files/` beside it.

    Attributes:
        folder: what a README names as its files; "" where it has none.
    """

    name: str
    title: str
    folder: str = ""


def folder() -> Path:
    """The templates."""
    return resource("templates")


def tasks() -> dict[str, Task]:
    """All tasks, by name."""
    offered = strategies()
    found = {name: Task(name, **read) for name, read in _described("tasks", "task.yaml").items()}
    return {
        name: replace(task, strategies=[one for one in task.strategies if one in offered])
        for name, task in found.items()
    }


def places() -> dict[str, Place]:
    """All places, by name."""
    return {name: Place(name, **read) for name, read in _described("places", "place.yaml").items()}


def strategies() -> dict[str, Strategy]:
    """Those that the installed runtime has; all of them where none is installed."""
    table = _yaml(folder() / "strategies.yaml")
    return {name: Strategy(name, **entry) for name, entry in table.items() if _offered(name)}


def common_settings() -> dict[str, str]:
    """The settings that all tasks have, and what they mean."""
    return dict(_yaml(folder() / "settings.yaml"))


def _described(kind: str, file: str) -> dict[str, dict[str, Any]]:
    found = sorted((folder() / kind).glob(f"*/{file}"))
    return {path.parent.name: _yaml(path) for path in found}


@functools.cache
def _yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _offered(strategy: str) -> bool:
    """Only DeepSpeed is a strategy that a runtime may lack; it is looked up by its file, without an import."""
    runtime = importlib.util.find_spec("accel_runtime")
    if strategy != "deepspeed" or runtime is None or runtime.origin is None:
        return True
    return Path(runtime.origin).with_name("strategies").joinpath("deepspeed.py").is_file()
