"""Programs that exist in memory only: their facts, and what the tool makes of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from accel_migrate.facts.facts import Facts
from accel_migrate.facts.interpret import gather_facts
from accel_migrate.migrate import migrate
from accel_migrate.notebook.notebook import read_notebook
from accel_migrate.project import Project
from accel_migrate.result import Options, Result
from accel_migrate.source import Source


def program(text: str, modules: Mapping[str, str] | None = None) -> Project:
    """The script `train.py` with the given text, and the project's other modules by name."""
    entry = Source(Path("train.py"), text, module="train")
    others = {name: Source(Path(f"{name}.py"), code, module=name) for name, code in (modules or {}).items()}
    return Project(entry, {"train": entry, **others}, Path())


def notebook(text: str) -> Project:
    """The notebook `train.ipynb` with one cell of code."""
    cell = {"cell_type": "code", "source": text.splitlines(keepends=True)}
    path = Path("train.ipynb")
    entry = Source(path, text, module="train", notebook=read_notebook(path, json.dumps({"cells": [cell]}).encode()))
    return Project(entry, {"train": entry}, Path())


def facts_of(text: str, modules: Mapping[str, str] | None = None) -> Facts:
    """What is known of such a program."""
    return gather_facts(program(text, modules))


def migrated(text: str, options: Options | None = None) -> Result:
    """What the tool makes of the script."""
    return migrate(program(text), options or Options())


def after(result: Result) -> str:
    """The script as the result leaves it."""
    entry = result.project.entry
    return next((change.after for change in result.changes if change.source is entry), entry.text)
