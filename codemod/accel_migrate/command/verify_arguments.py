"""The command line of `accel verify`. Imports next to nothing, so that `--help` answers at once."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_EPILOG = """\
The script's own arguments follow after --:
  accel verify train.py migrated/train.py -- --epochs 1

exit status:
  0  the same training, or differences that are expected (other dropout masks, say)
  1  different; the output says where, and why where it can be told
  2  wrong usage, or the original cannot be run
"""


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        if message.startswith("unrecognized arguments"):
            message += "; the script's own arguments follow after --"
        print(f"{self.prog}: error: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)


def parse_verify_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse and check; `script_args` is what follows after `--`. Exits with status 2 on wrong usage."""
    own, script_args = split_script_arguments(argv)
    parser = _parser()
    arguments = parser.parse_intermixed_args(own)
    arguments.script_args = script_args
    if arguments.to_end:
        arguments.steps = 0
    return arguments


def split_script_arguments(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """What comes before the first `--`, and what comes after it."""
    arguments = list(argv)
    at = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:at], arguments[at + 1 :]


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="accel verify",
        description="Run the original on one process and the migrated script on several, in scratch copies, and compare: losses, "
        "learning rates, gradients and weights, samples, printed lines and written files.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("original", metavar="ORIGINAL", help="the script for one process")
    parser.add_argument("migrated", metavar="MIGRATED", nargs="?", help="the script for several (default: what accel-migrate makes of it; ORIGINAL itself where it is accelerated already)")
    add_verify_options(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="of the report (default: text)")
    return parser


def add_verify_options(parser: argparse.ArgumentParser, title: str = "how to run both") -> None:
    """The options which `accel verify` and `accel-migrate --verify` share."""
    group = parser.add_argument_group(title)
    group.add_argument("--processes", type=_processes, default=(1, 2), metavar="N,...", help="for the migrated script (default: 1,2)")
    length = group.add_mutually_exclusive_group()
    length.add_argument("--steps", type=positive, default=20, metavar="K", help="optimizer steps to run (default: 20)")
    length.add_argument("--to-end", action="store_true", help="run the scripts to their end")
    group.add_argument("-m", "--module", action="store_true", help="the scripts are modules of the working directory, run as python -m does")
    group.add_argument("--device", choices=("auto", "cpu"), default="auto", help="cpu: also where there are GPUs (default: auto, GPUs if there are enough)")
    group.add_argument("--cpu", dest="device", action="store_const", const="cpu", default=argparse.SUPPRESS, help="same as --device cpu")
    group.add_argument("--rtol", type=_fraction, default=1e-4, metavar="X", help="relative difference that counts as none (default: 1e-4)")
    group.add_argument("--timeout", type=positive, default=600, metavar="SECONDS", help="for each run at most; all but the first also have 15 times what that took, a minute at least (default: 600)")
    group.add_argument("--hang-after", type=positive, default=15, metavar="SECONDS", help="without any computation (default: 15)")
    group.add_argument("--html", metavar="FILE", help="also write the report as one page with loss curves and the diff")
    group.add_argument("--python", default=sys.executable, help="interpreter with torch to run the scripts in (default: this one)")


def _processes(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(positive(part) for part in text.split(",")))


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not an integer from 1 up")
    return int(text)


def _fraction(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 0 to 1")
    return value
