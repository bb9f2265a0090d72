"""`accel new NAME`: a project to start from, and launch files for one that is there."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from accel_migrate.command.arguments import Parser
from accel_migrate.command.cli import never_fail_to_print
from accel_migrate.command.options import split_names
from accel_migrate.errors import UserError, internal_error
from accel_migrate.scaffold import catalog, render
from accel_migrate.scaffold.adding import launch_files
from accel_migrate.scaffold.answers import Answers, check_name, checked, from_file
from accel_migrate.scaffold.writing import write

_EPILOG = """\
Without flags it asks, where there is a terminal; --yes takes the defaults for what no flag says.

  accel new digits --task image-classification --strategy fsdp --precision bf16 --place slurm
  accel new --add docker digits          launch files for a project that is there
  accel new --list                       all tasks, strategies, trackers and places

exit status: 0 done, 2 wrong usage, or something is there already
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `accel new` and return the exit status."""
    try:
        never_fail_to_print()
        return _run(_parser().parse_args(argv))
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    except KeyboardInterrupt:
        print("accel new: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        print(f"accel new: error: {error if isinstance(error, UserError) else internal_error(error)}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="accel new",
        description="Make a project: training, data, model, settings, tests, CI, and launch files.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("name", nargs="?", help="of the project; its folder is made here (or where its path says)")
    for name, what in (
        ("task", "what is trained"),
        ("strategy", "how it is spread over processes (default: ddp)"),
        ("precision", "no, bf16 or fp16 (default: no)"),
        ("tracker", "of its figures: none, csv, tensorboard or wandb (default: csv)"),
    ):
        parser.add_argument(f"--{name}", metavar=name.upper(), help=what)
    parser.add_argument(
        "--checkpoints", action=argparse.BooleanOptionalAction, help="save the state, and go on from it (default)"
    )
    parser.add_argument(
        "--place", metavar="PLACE,...", action="append", dest="places", help="where it runs besides this machine"
    )
    parser.add_argument("--answers", metavar="FILE", type=Path, help="YAML file with the above; flags go before it")
    parser.add_argument("--yes", "-y", action="store_true", help="ask nothing")
    parser.add_argument(
        "--add", metavar="PLACE,...", action="append", help="write launch files into the project NAME, or this folder"
    )
    parser.add_argument("--list", action="store_true", help="list what there is to choose from, and stop")
    parser.add_argument("--dry-run", action="store_true", help="list the files, write nothing")
    return parser


def _run(arguments: argparse.Namespace) -> int:
    if arguments.list:
        print("\n".join(_listed()))
        return 0
    if arguments.add:
        return _add(arguments)
    if not arguments.name:
        raise UserError("give the new project a name: accel new NAME (see accel new --help)")
    root = Path(arguments.name)
    if root.name in ("", ".."):
        raise UserError(
            f"a project gets a folder of its own, which {arguments.name!r} does not name: accel new NAME, or a path that ends in the name"
        )
    check_name(root.name)
    if root.exists() and not arguments.dry_run:
        raise UserError(
            f"{root} is there already, and nothing is overwritten: choose another name (--add adds launch files)"
        )
    answers = checked(Answers(root.name, **_choices(arguments)))
    status = _write(root, render.project(answers), arguments.dry_run)
    if not arguments.dry_run:
        print(f"next: cd {root} && pip install -e '.[dev]' && accel launch train.py")
    return status


def _add(arguments: argparse.Namespace) -> int:
    root = Path(arguments.name or ".")
    return _write(root, launch_files(root, "train.py", sorted(split_names(arguments.add))), arguments.dry_run)


def _choices(arguments: argparse.Namespace) -> dict[str, Any]:
    """From flags, else the file, else questions; what is left has defaults."""
    given = from_file(arguments.answers) if arguments.answers else {}
    if given.pop("name", None) not in (None, Path(arguments.name).name):
        raise UserError(f"--answers {arguments.answers} is for another project; leave its name out")
    for field in fields(Answers):
        flag = getattr(arguments, field.name)
        if flag is not None and field.name != "name":
            given[field.name] = tuple(sorted(split_names(flag))) if field.name == "places" else flag
    if not (arguments.yes or arguments.answers) and sys.stdin.isatty() and sys.stdout.isatty():
        from accel_migrate.command.new_questions import ask_all, on_terminal

        given = ask_all(given, on_terminal)
    return given


def _write(root: Path, files: render.Files, dry_run: bool) -> int:
    if dry_run:
        for name, text in files.items():
            print(f"{root / name}  ({text.count(chr(10))} lines)")
        return 0
    for path in write(root, files):
        print(f"wrote {path}")
    return 0


def _listed() -> list[str]:
    """Everything there is to choose from, a line each."""
    tasks = {name: f"{task.summary} ({', '.join(task.strategies)})" for name, task in catalog.tasks().items()}
    groups = {
        "tasks": tasks,
        "strategies": {name: strategy.title for name, strategy in catalog.strategies().items()},
        "precisions": dict.fromkeys(catalog.PRECISIONS, ""),
        "trackers": dict.fromkeys(catalog.TRACKERS, ""),
        "places": {name: place.title for name, place in catalog.places().items()},
    }
    width = max(len(name) for group in groups.values() for name in group)
    lines: list[str] = []
    for heading, group in groups.items():
        lines += [f"{heading}:", *(f"  {name:{width}}  {what}".rstrip() for name, what in group.items())]
    return lines
