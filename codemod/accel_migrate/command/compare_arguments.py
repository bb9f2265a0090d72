"""The command line of `accel compare`. Imports next to nothing, so that `--help` answers at once."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from accel_migrate.command.verify_arguments import Parser, positive, split_script_arguments

PRECISIONS = ("no", "bf16", "fp16", "fp8")
_EPILOG = """\
The script's own arguments follow after --:
  accel compare train.py --precision no,bf16 -- --epochs 1

exit status:
  0  all precisions were run
  1  one of them could not be; its line says why
  2  wrong usage, or a script without an accelerator
"""


def parse_compare_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse and check; `script_args` is what follows after `--`. Exits with status 2 on wrong usage."""
    own, script_args = split_script_arguments(argv)
    arguments = _parser().parse_intermixed_args(own)
    arguments.script_args = script_args
    if arguments.to_end:
        arguments.steps = 0
    return arguments


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="accel compare",
        description="Train an accelerated script for some optimizer steps in each precision, in scratch copies, and print speed, memory, losses and "
        "the figures that it prints or logs, side by side.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "script", metavar="SCRIPT", help="it makes an Accelerator, of accel_runtime or of Hugging Face Accelerate"
    )
    parser.add_argument(
        "--precision",
        type=_precisions,
        default=PRECISIONS,
        metavar="P,...",
        help=f"differences are to the first (default: {','.join(PRECISIONS)})",
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--steps", type=positive, default=200, metavar="N", help="optimizer steps in each (default: 200)"
    )
    length.add_argument("--to-end", action="store_true", help="run the script to its end, evaluation included")
    parser.add_argument("--num_processes", "--num-processes", type=positive, default=1, metavar="N", help="default: 1")
    parser.add_argument(
        "--last",
        type=positive,
        default=20,
        metavar="K",
        help="steps at the end over which the mean of the loss is taken (default: 20)",
    )
    parser.add_argument(
        "-m",
        "--module",
        action="store_true",
        help="the script is a module of the working directory, run as python -m does",
    )
    parser.add_argument("--cpu", action="store_true", help="on the CPU even where there are GPUs")
    parser.add_argument(
        "--plot", metavar="FILE", help="also draw the losses: .svg, or what matplotlib writes (.png, .pdf)"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="of the report (default: text)")
    parser.add_argument(
        "--timeout", type=positive, default=1800, metavar="SECONDS", help="for each precision (default: 1800)"
    )
    parser.add_argument(
        "--python", default=sys.executable, help="interpreter with torch to run the script in (default: this one)"
    )
    return parser


def _precisions(text: str) -> tuple[str, ...]:
    chosen = tuple(dict.fromkeys(text.split(",")))
    if (unknown := next((name for name in chosen if name not in PRECISIONS), None)) is not None:
        raise argparse.ArgumentTypeError(f"{unknown!r} is none of {', '.join(PRECISIONS)}")
    return chosen
