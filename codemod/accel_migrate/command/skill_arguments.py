"""The command line of `accel skill`. Imports next to nothing, so that `--help` answers at once."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from accel_migrate.command.arguments import Parser

_EPILOG = """\
  accel skill install                       for the assistants of which there are signs here or in your home directory
  accel skill install --agent cursor,cline  for these; "all" for every one in the table
  accel skill install --scope user          in your home directory, for all projects
  accel skill uninstall                     takes away what was installed, and nothing that you have changed since

exit status:
  0  done
  1  something was kept as it is, because it was changed by you or there before; the output names it
  2  wrong usage, or a place that cannot be written
"""


def parse_skill_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse and check. Exits with status 2 on wrong usage, with 0 after `--help`."""
    parser = Parser(
        prog="accel skill",
        description="The Agent Skill with which coding assistants use these tools: where each of them looks for it, and a few lines in AGENTS.md.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _add_install(commands.add_parser("install", help="put the skill where assistants look", allow_abbrev=False))
    listing = commands.add_parser(
        "list", help="the assistants, their places, and what is installed", allow_abbrev=False
    )
    for name, what in (
        ("uninstall", "take away what was installed"),
        ("update", "bring what is installed to this version"),
    ):
        command = commands.add_parser(name, help=what, allow_abbrev=False)
        _add_place(command)
        command.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
        if name == "uninstall":
            command.add_argument("--agent", metavar="NAME,...", action="append", help="only for these assistants")
    _add_place(listing)
    show = commands.add_parser("show", help="print a page of the skill", allow_abbrev=False)
    show.add_argument(
        "page",
        nargs="?",
        default="SKILL",
        metavar="PAGE",
        help="SKILL (the default), or the name of a reference, such as hangs",
    )
    show.add_argument("--language", choices=("en", "zh-CN"), default="en", help="of SKILL (default: en)")
    return parser.parse_args(argv)


def _add_install(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--agent",
        metavar="NAME,...",
        action="append",
        help='assistants; "auto" (the default): those of which there are signs; "all"',
    )
    _add_place(parser)
    parser.add_argument(
        "--language", choices=("en", "zh-CN"), help="of SKILL.md (default: en, or that of the earlier installation)"
    )
    parser.add_argument(
        "--rules",
        action="store_true",
        help="also a few lines in each assistant's own file of rules (CLAUDE.md, .cursor/rules/, ...)",
    )
    parser.add_argument("--no-pointer", action="store_true", help="leave AGENTS.md alone")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")


def _add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--scope",
        choices=("project", "user"),
        default="project",
        help="this folder (the default), or your home directory",
    )
    parser.add_argument("--json", action="store_true", help="the report as JSON")
