"""`accel verify`: run the original and the migrated script, compare, and say where and why they differ."""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from accel_migrate.command.verify_arguments import parse_verify_arguments
from accel_migrate.command.verify_html import page
from accel_migrate.command.verify_modules import migrated_named, script_named
from accel_migrate.command.verify_progress import progress
from accel_migrate.command.verify_table import table
from accel_migrate.errors import UserError, internal_error
from accel_migrate.verify.job import Job
from accel_migrate.verify.jobs import job_for, preloads
from accel_migrate.verify.report import DIFFERENT, Report
from accel_migrate.verify.runs import Request
from accel_migrate.verify.verify import verify
from accel_migrate.verify.warm import ForkingRunner

VERSION = 1
"""Raised when a key of the JSON document changes its meaning or goes; new keys may come at any time."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `accel verify`; return 0 for the same training, 1 for another, 2 if that cannot be told."""
    try:
        began = time.monotonic()
        arguments = parse_verify_arguments(sys.argv[1:] if argv is None else argv)
        return run(arguments, *_jobs(arguments), began)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    except KeyboardInterrupt:
        print("accel verify: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        print(f"accel verify: error: {error if isinstance(error, UserError) else internal_error(error)}", file=sys.stderr)
        return 2


@contextmanager
def ends_like_an_interrupt() -> Iterator[None]:
    """A command that is ended (SIGTERM) clears scratch copies and processes away, too."""

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def run(arguments: argparse.Namespace, original: Job, migrated: Job, began: float | None = None) -> int:
    """Verify, print the report in the format asked for, and return the exit status; all counts as its time from `began` on."""
    began = time.monotonic() if began is None else began
    if arguments.html and not Path(arguments.html).absolute().parent.is_dir():
        raise UserError(f"--html {arguments.html}: there is no such folder")
    scratch = Path(tempfile.mkdtemp(prefix="accel-verify-"))
    try:
        with ends_like_an_interrupt(), progress(len(arguments.processes)) as begin, _runner(arguments, scratch, (original, migrated), begin) as warm:
            cpu = arguments.device == "cpu" or warm.call("accel_migrate.verify.hooks.devices:count") < max(arguments.processes)
            report = verify(_request(arguments, original, migrated, cpu), warm, begin)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    report.total_seconds = time.monotonic() - began
    if arguments.html:
        _write_page(Path(arguments.html), page(report, original, migrated))
    print(_as_json(report) if arguments.format == "json" else "\n".join(table(report)))
    return 1 if report.verdict == DIFFERENT else 0


def _write_page(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"--html {path}: {error.strerror}") from None


def _jobs(arguments: argparse.Namespace) -> tuple[Job, Job]:
    script, args = script_named(arguments.original, arguments.module), arguments.script_args
    original = job_for(script.file, args, script.module)
    if arguments.migrated is None:
        from accel_migrate.command.verify_migration import migrated_texts

        return original, job_for(script.file, args, script.module, migrated_texts(script.file))
    other = migrated_named(arguments.migrated, script)
    return original, job_for(other.file, args, other.module, home=other.home)


def _runner(arguments: argparse.Namespace, scratch: Path, jobs: tuple[Job, Job], begin: Callable[[str], None]) -> ForkingRunner:
    check_interpreter(arguments.python)
    begin("starting the interpreter")
    return ForkingRunner(scratch, arguments.python, preloads(jobs), devices=arguments.device == "auto")


def check_interpreter(python: str) -> None:
    """Raise a UserError if scripts cannot be run by it."""
    if not hasattr(os, "fork"):
        raise UserError("needs an operating system whose processes can fork, such as Linux")
    if shutil.which(python) is None:
        raise UserError(f"--python {python} is no program: give the interpreter that has torch")


def _request(arguments: argparse.Namespace, original: Job, migrated: Job, cpu: bool) -> Request:
    return Request(
        original,
        migrated,
        processes=arguments.processes,
        steps=arguments.steps,
        relative=arguments.rtol,
        timeout=arguments.timeout,
        hang_seconds=arguments.hang_after,
        cpu=cpu,
    )


def _as_json(report: Report) -> str:
    comparisons = [{**asdict(c), "verdict": c.verdict} for c in report.comparisons]
    found = {"version": VERSION, **asdict(report), "verdict": report.verdict, "comparisons": comparisons}
    return json.dumps(finite(found), indent=2, allow_nan=False)


def finite(value: Any) -> Any:
    """`value` with the numbers that JSON does not know as text: "nan", "inf"."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
