"""`accel test`: train a small model under the strategies that this machine can run, and compare with plain PyTorch."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..settings.errors import LaunchError
from ..settings.kinds import COUNT, SECONDS
from ..settings.reading import usable
from ..trials.cases import Case, cases
from . import shell

_PROGRAM = "accel test"
_WIDTH = 120
"""Characters of the table in a file or pipe, where there is no terminal to fit into."""
_TOLERANCE = {"no": 1e-4, "bf16": 0.1, "fp16": 0.1, "fp8": 0.1}
"""Precision -> the largest relative difference that rounding explains, against full precision on one process."""


@dataclass(frozen=True)
class Row:
    """One line of the table; `wrong` is empty where the training is that of plain PyTorch."""

    name: str
    processes: int
    device: str
    precision: str
    loss: str
    weights: str
    wrong: str = ""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; 0: all trainings agree, 1: one failed or differs, 2: wrong usage."""
    return shell.guarded(_PROGRAM, lambda: _run(parser().parse_args(argv)))


def parser() -> argparse.ArgumentParser:
    """The parser of `accel test`."""
    made = shell.Parser(
        prog=_PROGRAM,
        description="Train a small model under the strategies that this machine can run, and compare with plain PyTorch.",
    )
    made.add_argument("--cpu", action="store_true", help="on the CPU even where there are devices")
    made.add_argument(
        "--num_processes",
        "--num-processes",
        type=shell.reader(COUNT),
        metavar="N",
        help="default: one per device, at least 2",
    )
    made.add_argument(
        "--config_file", "--config-file", metavar="FILE", help="only the launch which this file describes"
    )
    made.add_argument(
        "--timeout", type=shell.reader(SECONDS), default=300.0, metavar="SECONDS", help="for each launch; default: 300"
    )
    made.add_argument("--json", action="store_true", help="print the table as JSON")
    return made


def _run(options: argparse.Namespace) -> int:
    shell.needs("torch")
    if not options.json:
        shell.needs("rich")
    rows = []
    for case in _cases(options):
        if sys.stderr.isatty():
            print(f"{case.name} ...", end="\r", file=sys.stderr)
        rows += list(tried(case, options.timeout))
    if options.json:
        print(json.dumps([vars(row) for row in rows], indent=2))
    else:
        _show(rows)
    return 1 if any(row.wrong for row in rows) else 0


def _cases(options: argparse.Namespace) -> Iterator[Case]:
    from ..launch_plan import count_devices

    devices = 0 if options.cpu else count_devices("all")
    if options.config_file:
        if options.cpu or options.num_processes:
            raise LaunchError("--config_file says where and on how many processes; leave --cpu and --num_processes out")
        values = usable(Path(options.config_file)).values
        if values.get("num_machines", 1) > 1:
            raise LaunchError(
                f"{options.config_file} is for several machines: start `accel launch -m accel_runtime.trials.program FILE.json` on each"
            )
        count = values.get("num_processes", max(1, 0 if values.get("cpu") else devices))
        yield Case(options.config_file, count, ("--config_file", str(Path(options.config_file).resolve())))
    else:
        yield from cases(devices, options.num_processes or max(2, devices), options.cpu)


def tried(case: Case, timeout: float) -> Iterator[Row]:
    """Launch one case and compare: a row for each precision, or one that says what failed."""
    with tempfile.TemporaryDirectory(prefix="accel-test-") as folder:
        result = Path(folder, "result.json")
        count = () if "--config_file" in case.options else ("--num_processes", str(case.processes))
        command = [
            sys.executable,
            "-m",
            "accel_runtime.launch",
            *count,
            *case.options,
            "-m",
            "accel_runtime.trials.program",
            str(result),
        ]
        failure = _failure(command, folder, timeout)
        found = (
            json.loads(result.read_text())
            if result.exists()
            else {"runs": [], "device": "-", "processes": case.processes}
        )
    if found["processes"] != case.processes:
        failure = failure or f"{found['processes']} processes were started"
    for run in found["runs"]:
        yield Row(
            case.name,
            case.processes,
            found["device"],
            run["precision"],
            f"{run['loss']:.1e}",
            f"{run['weights']:.1e}",
            _wrong(run),
        )
    if failure:
        yield Row(case.name, case.processes, found["device"], "-", "-", "-", failure)


def _failure(command: list[str], folder: str, timeout: float) -> str:
    """Run a launch; what its processes complained of last, "" if they did not."""
    package = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        complaints = process.communicate(timeout=timeout)[1]
    except subprocess.TimeoutExpired:
        process.terminate()  # the launcher then stops its processes
        process.communicate()
        return f"not finished after {timeout:g} seconds"
    except BaseException:
        process.terminate()
        raise
    return _cause(complaints) if process.returncode else ""


def _cause(complaints: str) -> str:
    """The line that names the error, rather than the launcher's or torch's remarks."""
    lines = [line for line in complaints.splitlines() if line.strip()]
    errors = [line for line in lines if line.partition(":")[0].endswith(("Error", "Exception")) and line[0] != " "]
    return (errors or lines or ["it ended without a word"])[0]


def _wrong(run: dict[str, Any]) -> str:
    allowed = _TOLERANCE[run["precision"]]
    if not run["samples"]:
        return "other samples, or in another order"
    return "" if run["loss"] <= allowed and run["weights"] <= allowed else f"differs by more than {allowed:g}"


def _show(rows: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Against plain PyTorch on one process: largest relative difference", title_justify="left")
    for heading, justify in (
        ("strategy", "left"),
        ("processes", "right"),
        ("device", "left"),
        ("precision", "left"),
        ("losses", "right"),
        ("weights", "right"),
        ("", "left"),
    ):
        table.add_column(heading, justify=justify, no_wrap=bool(heading))  # type: ignore[arg-type]
    for row in rows:
        table.add_row(
            row.name,
            str(row.processes),
            row.device,
            row.precision,
            row.loss,
            row.weights,
            row.wrong or "ok",
            style="red" if row.wrong else None,
        )
    Console(width=None if sys.stdout.isatty() else _WIDTH).print(table)


if __name__ == "__main__":
    sys.exit(main())
