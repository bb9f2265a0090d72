"""From flags and pyproject.toml to `Options`."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from accel_migrate.command.settings import read_settings
from accel_migrate.command.targets import is_script
from accel_migrate.errors import UserError
from accel_migrate.result import Options
from accel_migrate.selection import known_rules, unknown_rule


def options_for(script: Path, arguments: argparse.Namespace) -> Options:
    """How to migrate `script`: a flag beats the settings file; rules ignored in either are ignored.

    Raises:
        UserError: the settings file is wrong, or a rule is unknown.
    """
    settings = read_settings(script)
    flags = check_flags(arguments)
    for key in ("select", "ignore"):
        _check(getattr(settings, key) or (), f"{settings.file}: [tool.accel-migrate] {key}")
    target = arguments.target or settings.target or Options.target
    checkpoint = arguments.checkpoint or settings.checkpoint or Options.checkpoint
    if checkpoint == "state" and target != "accel_runtime":
        raise UserError(f"--checkpoint state needs --target accel_runtime: {target}'s save_state keeps no counters and no place in the epoch")
    return Options(
        target=target,
        checkpoint=checkpoint,
        unsafe=bool(settings.unsafe) if arguments.unsafe is None else arguments.unsafe,
        select=flags["select"] or settings.select or frozenset(),
        ignore=flags["ignore"] | (settings.ignore or frozenset()),
        as_script=is_script(arguments.output),
    )


def check_flags(arguments: argparse.Namespace) -> dict[str, frozenset[str]]:
    """The rules which `--select` and `--ignore` name.

    Raises:
        UserError: one of them is unknown.
    """
    rules = {key: split_names(getattr(arguments, key)) for key in ("select", "ignore")}
    for key, names in rules.items():
        _check(names, f"--{key}")
    return rules


def split_names(lists: Iterable[str] | None) -> frozenset[str]:
    """`["A,B", "C"]` -> A, B and C."""
    return frozenset(name.strip() for names in lists or () for name in names.split(",") if name.strip())


def _check(names: Iterable[str], where: str) -> None:
    known = known_rules() if names else {}
    for name in sorted(names):
        if name not in known:
            raise UserError(f"{where}: {unknown_rule(name)}; accel-migrate --list-rules lists them")
