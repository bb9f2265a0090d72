"""From flags and pyproject.toml to `Options`."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from accel_migrate.command.settings import read_settings
from accel_migrate.errors import UserError
from accel_migrate.result import Options


def options_for(script: Path, arguments: argparse.Namespace) -> Options:
    """How to migrate `script`: a flag beats the settings file; rules ignored in either are ignored.

    Raises:
        UserError: the settings file is wrong, or a rule is unknown.
    """
    settings = read_settings(script)
    values: dict[str, Any] = {
        "target": arguments.target or settings.target or Options.target,
        "unsafe": bool(settings.unsafe) if arguments.unsafe is None else arguments.unsafe,
        "select": _split(arguments.select) or settings.select or frozenset(),
        "ignore": _split(arguments.ignore) | (settings.ignore or frozenset()),
    }
    _check_rules(values["select"] | values["ignore"])
    return Options(**values)


def known_rules() -> dict[str, str]:
    """The id and the title of every rule, and of what rules report under other ids."""
    from accel_migrate.rules import all_rules

    titles = {rule.id: rule.title for rule in all_rules()}
    for rule in all_rules():
        titles.update(rule.findings)
    return dict(sorted(titles.items()))


def _split(lists: Iterable[str] | None) -> frozenset[str]:
    """`["A,B", "C"]` -> A, B and C."""
    return frozenset(name.strip() for names in lists or () for name in names.split(",") if name.strip())


def _check_rules(names: frozenset[str]) -> None:
    unknown = sorted(names - known_rules().keys()) if names else []
    if unknown:
        raise UserError(f"unknown rule {', '.join(unknown)}; accel-migrate --list-rules lists them")
