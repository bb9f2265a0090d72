"""`accel config`: ask for the settings of a launch, write them to a file, check a file, bring an old one up to date."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..launch_arguments import PROJECT_FILE, Underscores, add_settings
from ..settings.comments import own
from ..settings.errors import LaunchError
from ..settings.offered import SWITCH_OF
from ..settings.reading import Content, read
from ..settings.table import SETTINGS
from ..settings.writing import written
from . import shell

_PROGRAM = "accel config"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; 0: done, 1: `check` found something, 2: wrong usage or a file that cannot be used."""
    return shell.guarded(_PROGRAM, lambda: _run(parser().parse_args(argv)))


def parser() -> argparse.ArgumentParser:
    """The parser of `accel config`."""
    made = shell.Parser(
        prog=_PROGRAM, description=f"Ask for the settings of accel launch and write them to {PROJECT_FILE}."
    )
    made.set_defaults(run=_ask)
    _writing(made)
    commands = made.add_subparsers(title="without questions", metavar="COMMAND", parser_class=shell.Parser)
    default = commands.add_parser(
        "default",
        help="write a file with the options that are given here, and explanations",
        formatter_class=Underscores,
    )
    _writing(default)
    add_settings(default)
    default.set_defaults(run=_default)
    check = commands.add_parser("check", help="name every problem of a file with its line")
    check.add_argument("file", nargs="?", default=PROJECT_FILE, help=f"default: {PROJECT_FILE}")
    check.set_defaults(run=_check)
    update = commands.add_parser("update", help="bring a file of Accelerate, or an older one, up to date")
    update.add_argument("file", nargs="?", default=PROJECT_FILE, help=f"default: {PROJECT_FILE}")
    update.add_argument("--config_file", "--config-file", dest="file", help=argparse.SUPPRESS)
    update.add_argument("--output", metavar="FILE", help="write there, and leave the old file alone")
    update.add_argument("--dry-run", "--dry_run", action="store_true", help="print the new file, write nothing")
    update.set_defaults(run=_update)
    return made


def _writing(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--config_file",
        "--config-file",
        "--output",
        metavar="FILE",
        default=PROJECT_FILE,
        help=f"where to write; default: {PROJECT_FILE}",
    )
    made.add_argument("--force", action="store_true", help="replace the file if it is there")


def _run(options: argparse.Namespace) -> int:
    return int(options.run(options))


def _ask(options: argparse.Namespace) -> int:
    target = _free(options)
    shell.needs("questionary")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise LaunchError("asking needs a terminal; `accel config default` writes a file without questions")
    from .questions import ask_all, asked_on_terminal, devices

    return _write(target, ask_all(asked_on_terminal, devices()))


def _default(options: argparse.Namespace) -> int:
    values = {name: value for name in SETTINGS if (value := getattr(options, name, None)) is not None}
    for kind, switch in SWITCH_OF.items():
        if values.pop(switch, False):
            values["distributed_type"] = kind
    return _write(_free(options), values)


def _free(options: argparse.Namespace) -> Path:
    target = Path(options.config_file)
    if target.exists() and not options.force:
        raise LaunchError(
            f"{target} is there already: --force replaces it, --config_file writes elsewhere, `accel config update` brings it up to date"
        )
    return target


def _write(target: Path, values: dict[str, Any]) -> int:
    shell.write(target, written(values))
    named = "" if target == Path(PROJECT_FILE) else f" --config_file {target}"
    print(f"wrote {target}; start with: accel launch{named} SCRIPT")
    return 0


def _check(options: argparse.Namespace) -> int:
    content = read(Path(options.file))
    for remark in sorted([*content.problems, *content.unused], key=lambda remark: remark.line):
        print(remark)
    if content.problems:
        return 1
    old = (
        f"; `accel config update {options.file}` would bring {len(content.old)} entries up to date"
        if content.old
        else ""
    )
    print(f"{options.file}: no problem{old}")
    return 0


def _update(options: argparse.Namespace) -> int:
    source = Path(options.file)
    content = read(source)
    if content.problems:
        raise LaunchError("; ".join(map(str, content.problems)))
    text = source.read_text(encoding="utf-8-sig")
    kept = _kept(content)
    new = written(kept, own(text, {name: line for name, line in content.lines.items() if name in kept}))
    if options.dry_run:
        print(new, end="")
        return 0
    for remark in [*content.old, *content.unused]:
        print(remark)
    target = Path(options.output or source)
    if target != source and target.exists():
        raise LaunchError(f"{target} is there already: give --output another name")
    if new == text and target == source:
        print(f"{target} is up to date")
        return 0
    shell.write(target, new)
    print(f"wrote {target}")
    return 0


def _kept(content: Content) -> dict[str, Any]:
    """What the new file says: the values given, less those that say nothing beyond a default."""
    values = {name: value for name, value in content.values.items() if value != SETTINGS[name].default}
    if content.values.get("distributed_type") not in (*SWITCH_OF, None):
        values.pop("distributed_type")  # the number of processes and `use_cpu` say it
    return values


if __name__ == "__main__":
    sys.exit(main())
