"""`accel compare`: train a script in several precisions, and print speed, memory and losses side by side."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from accel_migrate.command import compare_plot
from accel_migrate.command.compare_arguments import parse_compare_arguments
from accel_migrate.command.compare_table import table
from accel_migrate.command.verify import check_interpreter, ends_like_an_interrupt, finite
from accel_migrate.command.verify_modules import script_named
from accel_migrate.compare.result import Comparison
from accel_migrate.compare.runs import compared
from accel_migrate.errors import UserError, internal_error
from accel_migrate.verify.jobs import job_for, preloads
from accel_migrate.verify.warm import ForkingRunner

VERSION = 1
"""Raised when a key of the JSON document changes its meaning or goes; new keys may come at any time."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `accel compare`; return 0 if all precisions were run, 1 if not, 2 for wrong usage."""
    try:
        return _run(parse_compare_arguments(sys.argv[1:] if argv is None else argv))
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    except KeyboardInterrupt:
        print("accel compare: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        print(
            f"accel compare: error: {error if isinstance(error, UserError) else internal_error(error)}", file=sys.stderr
        )
        return 2


def _run(arguments: argparse.Namespace) -> int:
    check_interpreter(arguments.python)
    if arguments.plot:
        compare_plot.check(arguments.plot)
    script = script_named(arguments.script, arguments.module)
    job = job_for(script.file, arguments.script_args, script.module)
    scratch = Path(tempfile.mkdtemp(prefix="accel-compare-"))
    try:
        with (
            ends_like_an_interrupt(),
            _progress(len(arguments.precision)) as tell,
            ForkingRunner(scratch, arguments.python, preloads([job]), devices=not arguments.cpu) as warm,
        ):
            cpu = arguments.cpu or warm.call("accel_migrate.verify.hooks.devices:count") < arguments.num_processes
            comparison = compared(
                job,
                arguments.precision,
                arguments.num_processes,
                arguments.steps,
                arguments.last,
                cpu,
                arguments.timeout,
                warm,
                tell,
            )
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if arguments.plot:
        compare_plot.write(arguments.plot, comparison)
    print(_as_json(comparison, arguments.plot) if arguments.format == "json" else "\n".join(table(comparison)))
    return 1 if any(run.error for run in comparison.runs) else 0


@contextmanager
def _progress(runs: int) -> Iterator[Callable[[str], None]]:
    """What to call with each precision that begins: a bar on a terminal."""
    if not sys.stderr.isatty():
        yield lambda what: None
        return
    from tqdm import tqdm

    with tqdm(total=runs, desc="accel compare", unit="run", leave=False, file=sys.stderr) as bar:
        yield lambda what: (bar.set_description(what), bar.update())[1]


def _as_json(comparison: Comparison, plot: str | None) -> str:
    runs = [
        {
            **asdict(run),
            "loss": {"last": run.last_loss(), "mean": run.mean_loss(comparison.last)},
            "against_first": comparison.against_first(run),
        }
        for run in comparison.runs
    ]
    return json.dumps(
        finite({"version": VERSION, **asdict(comparison), "runs": runs, "plot": plot}), indent=2, allow_nan=False
    )
