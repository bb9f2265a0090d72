"""The command line of `accel-migrate`. Imports next to nothing, so that `--help` answers at once."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from accel_migrate import __version__
from accel_migrate.command.verify_arguments import add_verify_options, split_script_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing would cost a tenth of `--help`
    from typing import NoReturn

_EPILOG = """\
exit status:
  0  done, nothing left to do by hand (or already accelerated)
  1  something is left to do by hand; with --check: something would change
  2  wrong usage, or a file that cannot be read or written
  3  nothing was migrated; the output says why

Keep a rule off a line with a comment:  # accel: ignore[RULE]
Keep it off a whole file:               # accel: ignore-file[RULE]
Settings (select, ignore, target, checkpoint, unsafe) may stand in pyproject.toml under [tool.accel-migrate].
"""


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: error: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)


def parse_arguments(argv: Sequence[str] | None, prog: str = "accel-migrate") -> argparse.Namespace:
    """Parse and check; flags may stand anywhere. Exits with status 2 on wrong usage, with 0 after `--help`."""
    parser = _parser(prog)
    own, script_args = split_script_arguments(sys.argv[1:] if argv is None else argv)
    arguments = parser.parse_intermixed_args(own)
    arguments.script_args = script_args
    _check_verify(parser, arguments)
    if arguments.write and arguments.output is not None:
        parser.error("--write and --output exclude each other")
    if arguments.output is not None and arguments.output.endswith((".py", ".ipynb")) and not _is_one_notebook(arguments.paths):
        what = "turns one notebook into a script" if arguments.output.endswith(".py") else "is for one notebook"
        parser.error(f"--output {arguments.output} {what}; for anything else give a folder")
    if arguments.check and (arguments.write or arguments.output is not None):
        parser.error("--check writes nothing: leave out --write and --output")
    if arguments.add and not (arguments.write or arguments.output is not None):
        parser.error("--add writes launch files beside the result: give --write or --output as well")
    if arguments.diff and arguments.format != "text":
        parser.error(f"--diff prints only the diff: leave out --format {arguments.format}")
    if not arguments.paths and not arguments.list_rules:
        parser.error("give a training script, a notebook or a folder")
    return arguments


def _check_verify(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    if not arguments.verify:
        if arguments.script_args:
            parser.error("what follows after -- are arguments of the script: give --verify as well")
        return
    arguments.steps = 0 if arguments.to_end else arguments.steps
    if len(arguments.paths) != 1 or not (arguments.module or arguments.paths[0].endswith((".py", ".ipynb"))):
        parser.error("--verify runs one script: give the path of a Python file or a notebook, or a module with -m")
    if arguments.format != "text" or arguments.diff or arguments.explain:
        parser.error("--verify prints text after the report: leave out --format, --diff and --explain, or use accel verify")


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = Parser(
        prog=prog,
        description="Turn a single-GPU PyTorch script into one that trains the same on any number of processes. "
        "Project-local imports are followed. Without --write or --output nothing is written.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="a training script or notebook, or a folder to search for some")
    parser.add_argument("--version", action="version", version=f"accel-migrate {__version__}")
    _add_output_options(parser)
    _add_rule_options(parser)
    add_verify_options(parser, "how to run both, with --verify")
    parser.add_argument("--jobs", type=positive, metavar="N", help="processes for several programs (default: one per core)")
    return parser


def _is_one_notebook(paths: Sequence[str]) -> bool:
    return len(paths) == 1 and paths[0].endswith(".ipynb")


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not an integer from 1 up")
    return int(text)


def _add_output_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what to do with the result")
    group.add_argument("--write", action="store_true", help="write the files in place, atomically")
    group.add_argument("--output", metavar="DIR", help="write the program, changed and unchanged files, to DIR; of a notebook, NAME.py makes a script")
    group.add_argument("--add", metavar="PLACE,...", action="append", help="write launch files too, for slurm, k8s, docker or monitoring")
    group.add_argument("--check", action="store_true", help="only report; exit with 1 if something would change")
    group.add_argument("--allow-nothing", action="store_true", help="exit with 0, not 3, where nothing is to be migrated")
    group.add_argument("--diff", action="store_true", help="print only the diff to standard output")
    group.add_argument("--verify", action="store_true", help="run the original and the result, and compare; arguments of the script follow after --")
    group.add_argument("--explain", action="store_true", help="print what was recognised in the script, and stop")
    formats = ("text", "json", "sarif", "markdown", "github")
    group.add_argument("--format", choices=formats, default="text", help="of the report (default: text)")
    group.add_argument("--no-color", action="store_true", help="no colours, as with NO_COLOR in the environment")


def _add_rule_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how to migrate")
    group.add_argument("--target", choices=("accel_runtime", "accelerate"), help="library that the result imports")
    group.add_argument(
        "--checkpoint", choices=("file", "state"), help="file: checkpoints keep the script's format (default); state: they become save_state and load_state"
    )
    group.add_argument("--unsafe", action="store_true", default=None, help="also rewrite what may change behaviour")
    group.add_argument("--select", metavar="RULE,...", action="append", help="run only these rules")
    group.add_argument("--ignore", metavar="RULE,...", action="append", help="leave these rules out")
    group.add_argument("--list-rules", action="store_true", help="list the rules, and stop")
