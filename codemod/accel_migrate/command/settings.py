"""`[tool.accel-migrate]` in the nearest pyproject.toml: `select`, `ignore`, `target`, `checkpoint`, `unsafe`; `[tool.accel-check]`: the first two."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel_migrate.errors import UserError

TARGETS = ("accel_runtime", "accelerate")
CHECKPOINTS = ("file", "state")


@dataclass(frozen=True)
class Settings:
    """What the table says; None where it says nothing."""

    select: frozenset[str] | None = None
    ignore: frozenset[str] | None = None
    target: str | None = None
    checkpoint: str | None = None
    unsafe: bool | None = None
    file: Path | None = None
    """Where the table stands."""


MIGRATE, CHECK = "accel-migrate", "accel-check"
_KEYS = {MIGRATE: ("select", "ignore", "target", "checkpoint", "unsafe"), CHECK: ("select", "ignore")}
"""The tables there are, with their keys."""


def read_settings(script: Path, name: str = MIGRATE) -> Settings:
    """The settings for `script`: those of the nearest pyproject.toml above it that has the table `[tool.NAME]`.

    Raises:
        UserError: the file is not TOML, or the table has an unknown key or a value of the wrong type.
    """
    for folder in Path(os.path.abspath(script)).parents:
        file = folder / "pyproject.toml"
        table = _table(file, name) if file.is_file() else None
        if table is not None:
            return _checked(table, file, name)
    return Settings()


def _table(file: Path, name: str) -> dict[str, Any] | None:
    try:
        data = file.read_bytes()
    except OSError:
        return None
    if name.encode() not in data:
        return None
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        table = tomllib.loads(data.decode()).get("tool", {}).get(name)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: is not valid TOML: {error}") from None
    if table is not None and not isinstance(table, dict):
        raise UserError(f"{file}: [tool.{name}] must be a table, not {type(table).__name__}")
    return table


def _checked(table: dict[str, Any], file: Path, name: str) -> Settings:
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in _KEYS[name]:
            raise UserError(f"{file}: [tool.{name}] has no key {key!r}; allowed: {', '.join(_KEYS[name])}")
        try:
            values[key] = _CONVERTERS[key](value)
        except ValueError as error:
            raise UserError(f"{file}: [tool.{name}] {key} = {value!r}: must be {error}") from None
    return Settings(**values, file=file)


def _rules(value: object) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError("a list of rule ids")
    return frozenset(value)


def _target(value: object) -> str:
    if value not in TARGETS:
        raise ValueError(f"one of {', '.join(TARGETS)}")
    return str(value)


def _checkpoint(value: object) -> str:
    if value not in CHECKPOINTS:
        raise ValueError(f"one of {', '.join(CHECKPOINTS)}")
    return str(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


_CONVERTERS: dict[str, Callable[[object], object]] = {
    "select": _rules,
    "ignore": _rules,
    "target": _target,
    "checkpoint": _checkpoint,
    "unsafe": _flag,
}
