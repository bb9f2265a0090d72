"""The command line of `accel check`. Imports next to nothing, so that `--help` answers at once."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from accel_migrate.command.arguments import Parser, positive

_EPILOG = """\
exit status:
  0  nothing is wrong (what is only worth knowing does not count)
  1  errors or warnings remain
  2  wrong usage, or a file that cannot be read or written
  3  nothing was checked: no program uses accel_runtime or Hugging Face Accelerate

Keep a rule off a line with a comment:  # accel: ignore[RULE]
Keep it off a whole file:               # accel: ignore-file[RULE]
Settings (select, ignore) may stand in pyproject.toml under [tool.accel-check].
"""


def parse_check_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse and check; flags may stand anywhere. Exits with status 2 on wrong usage, with 0 after `--help`."""
    parser = _parser()
    arguments = parser.parse_intermixed_args(sys.argv[1:] if argv is None else argv)
    if not arguments.paths and not arguments.list_rules:
        parser.error("give an accelerated script, a notebook or a folder")
    if arguments.diff and arguments.format != "text":
        parser.error(f"--diff prints only the diff: leave out --format {arguments.format}")
    arguments.fix = arguments.fix or arguments.unsafe_fixes or arguments.diff
    return arguments


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="accel check",
        description="Find what an accelerated script does wrong on several processes: hangs, wrong numbers, lost files. Scripts for accel_runtime "
        "and for Hugging Face Accelerate; project-local imports are followed, nothing is run.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="a script or notebook, or a folder to search for some")
    parser.add_argument("--fix", action="store_true", help="mend, in place, what can be mended safely")
    parser.add_argument("--unsafe-fixes", action="store_true", help="mend also what may not be meant so")
    parser.add_argument("--diff", action="store_true", help="print what --fix would change, and write nothing")
    parser.add_argument(
        "--format", choices=("text", "json", "sarif", "github"), default="text", help="of the report (default: text)"
    )
    parser.add_argument("--no-color", action="store_true", help="no colours, as with NO_COLOR in the environment")
    parser.add_argument("--select", metavar="RULE,...", action="append", help="run only these rules")
    parser.add_argument("--ignore", metavar="RULE,...", action="append", help="leave these rules out")
    parser.add_argument("--list-rules", action="store_true", help="list the rules, and stop")
    parser.add_argument("--allow-nothing", action="store_true", help="exit with 0, not 3, where nothing was checked")
    parser.add_argument(
        "--jobs", type=positive, metavar="N", help="processes for several programs (default: one per core)"
    )
    return parser
