"""`accel skill`: install, list, update, remove and show the skill for coding assistants."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from accel_migrate.assistants import bundle
from accel_migrate.assistants.install import USER, Place, detected, install, uninstall, update
from accel_migrate.assistants.manifest import read_manifest
from accel_migrate.assistants.plan import KEPT, REMOVE, SAME, WRITE, Step
from accel_migrate.assistants.table import ASSISTANTS, CHECKED, SHARED
from accel_migrate.command.options import split_names
from accel_migrate.command.skill_arguments import parse_skill_arguments
from accel_migrate.errors import UserError, internal_error

_HEADINGS = ("assistant", "state", "skills", "documented", "rules")
VERSION = 1
"""Raised when a key of the JSON document changes its meaning or goes; new keys may come at any time."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `accel skill` and return the exit status."""
    try:
        return run(parse_skill_arguments(sys.argv[1:] if argv is None else argv))
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    except Exception as error:
        print(
            f"accel skill: error: {error if isinstance(error, UserError) else internal_error(error)}", file=sys.stderr
        )
        return 2


def run(arguments: argparse.Namespace) -> int:
    """Do what the parsed command line asks.

    Raises:
        UserError: it cannot be done.
    """
    if arguments.action == "show":
        return _show(arguments)
    place = Place(Path.home() if arguments.scope == USER else Path.cwd(), arguments.scope)
    if arguments.action == "list":
        return _list(arguments, place)
    steps = _steps(arguments, place)
    _report(arguments, place, steps)
    return int(any(step.action == KEPT for step in steps))


def _steps(arguments: argparse.Namespace, place: Place) -> list[Step]:
    names = split_names(getattr(arguments, "agent", None))
    if arguments.action == "update":
        return update(place, arguments.dry_run)
    if arguments.action == "uninstall":
        return uninstall(place, sorted(names), arguments.dry_run)
    chosen = set(names - {"auto", "all"}) | (set(ASSISTANTS) if "all" in names else set())
    if not names or "auto" in names:
        chosen |= set(detected(place, Path.home()))
    return install(
        place,
        chosen,
        language=arguments.language,
        with_rules=arguments.rules,
        pointer=not arguments.no_pointer,
        dry=arguments.dry_run,
    )


def _show(arguments: argparse.Namespace) -> int:
    if arguments.page not in bundle.page_names():
        raise UserError(f"there is no page {arguments.page!r}; the pages are {', '.join(bundle.page_names())}")
    print(bundle.page(arguments.page, arguments.language), end="")
    return 0


def _list(arguments: argparse.Namespace, place: Place) -> int:
    there = read_manifest(place.root)
    here = detected(place, Path.home())
    rows = [
        {
            "assistant": entry.name,
            "title": entry.title,
            "detected": entry.name in here,
            "installed": entry.name in there.assistants and not there.is_empty,
            "served": not there.is_empty and (entry.name in there.assistants or place.skills(entry) == SHARED),
            "skills": place.skills(entry),
            "rules": entry.rules,
            "confirmed": entry.confirmed,
            "source": entry.source,
        }
        for entry in ASSISTANTS.values()
    ]
    if arguments.json:
        _print(
            {
                "version": VERSION,
                "checked": CHECKED,
                "root": str(place.root),
                "skill": there.skill or None,
                "assistants": rows,
            }
        )
        return 0
    state = f"version {there.skill} is installed" if not there.is_empty else "nothing is installed"
    print(f"{place.root}: {state}; places looked up in {CHECKED}")
    for cells in (_HEADINGS, *map(_cells, rows)):
        print(f"  {cells[0]:18}  {cells[1]:9}  {cells[2]:24}  {cells[3]:13}  {cells[4]}")
    print(
        f"served: reads {SHARED}, where the skill is; in part: not all of its places are in the vendor's documentation"
    )
    return 0


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    state = next((name for name in ("installed", "served", "detected") if row[name]), "-")
    return row["assistant"], state, row["skills"], "yes" if row["confirmed"] else "in part", row["rules"]


def _report(arguments: argparse.Namespace, place: Place, steps: list[Step]) -> None:
    there = read_manifest(place.root)
    if arguments.json:
        _print(
            {
                "version": VERSION,
                "action": arguments.action,
                "dry_run": arguments.dry_run,
                "root": str(place.root),
                "skill": there.skill or None,
                "assistants": there.assistants,
                "steps": [{"action": step.action, "path": step.path, "why": step.why} for step in steps],
            }
        )
        return
    for line in _lines(steps, arguments.dry_run):
        print(line)
    if arguments.dry_run or there.is_empty:
        return
    if there.assistants:
        print(f"For {', '.join(ASSISTANTS[name].title for name in there.assistants)}, and whoever reads {SHARED}/")
    else:
        print(
            f"No assistant found here: for whoever reads {SHARED}/. For Claude Code: --agent claude-code (accel skill list: all)"
        )


def _lines(steps: list[Step], dry: bool) -> Iterator[str]:
    """A line for each file; many of one folder of skills are one."""
    for action, verb in (
        (WRITE, "would write" if dry else "wrote"),
        (REMOVE, "would remove" if dry else "removed"),
        (KEPT, "kept"),
    ):
        whole: dict[str, int] = {}
        for step in steps:
            folder = step.path.partition(f"/{bundle.NAME}/")[0]
            if step.action != action:
                continue
            if action != KEPT and folder != step.path:
                whole[folder] = whole.get(folder, 0) + 1
            else:
                yield f"{verb} {step.path}{f': {step.why}' if step.why else ''}"
        yield from (
            f"{verb} {folder}/{bundle.NAME}/ ({count} file{'' if count == 1 else 's'})"
            for folder, count in whole.items()
        )
    if all(step.action == SAME for step in steps):
        yield "nothing to do"


def _print(document: dict[str, Any]) -> None:
    print(json.dumps(document, indent=2, ensure_ascii=False))
