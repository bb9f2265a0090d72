"""`accel demo`: migrate the bundled example, train both versions on the CPU and compare their numbers."""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from accel_migrate.resources import resource

TOLERANCE = 1e-4
"""Largest relative difference between two printed numbers that count as the same."""

_NEEDED = {"torch": "torch", "sklearn": "scikit-learn"}
_EPOCH = re.compile(r"epoch \d+: loss (\S+), test accuracy (\S+)")


@dataclass(frozen=True)
class Epoch:
    """What the example prints after one epoch: mean training loss, and accuracy on the test set in [0, 1]."""

    loss: float
    accuracy: float


class DemoError(Exception):
    """The demo could not be shown; the text is one line for the user."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo. Returns 0 if both versions trained the same, 1 if not, 2 if they could not be compared."""
    processes = _parser().parse_args(argv).processes
    try:
        _check_packages()
        return 0 if _show(processes, Path(tempfile.mkdtemp(prefix="accel-demo-"))) else 1
    except DemoError as error:
        print(f"accel demo: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("accel demo: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="accel demo",
        description="Migrate a bundled script, train the original on one process and the migrated script on several, "
        "all on the CPU, and compare what they print.",
        epilog="exit status: 0 the numbers agree, 1 they differ, 2 they could not be compared",
    )
    parser.add_argument("--processes", type=_positive, default=2, help="for the migrated script (default: 2)")
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not an integer from 1 up")
    return int(text)


def _check_packages() -> None:
    missing = [name for module, name in _NEEDED.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise DemoError(f"needs {' and '.join(missing)}; install with: pip install 'accel-migrate[demo]'")


def _show(processes: int, folder: Path) -> bool:
    """Print every step of the demo in `folder`; whether the numbers agree."""
    shutil.copy(resource("examples") / "digits" / "train.py", folder)
    print(f"A plain PyTorch script and what becomes of it, in {folder}\n")
    _run(folder, "accel-migrate train.py --diff")
    _run(folder, "accel-migrate train.py --output migrated")
    original = epochs(_run(folder, "python train.py --checkpoint original.pt"))
    launch = f"accel launch --cpu --num_processes {processes} migrated/train.py --checkpoint migrated.pt"
    migrated = epochs(_run(folder, launch))
    if not original or len(original) != len(migrated):
        raise DemoError(f"the original printed {len(original)} epochs and the migrated script {len(migrated)}")
    difference = largest_difference(original, migrated)
    verdict = "the same" if difference <= TOLERANCE else "NOT the same"
    print("\n".join(table(original, migrated, processes)))
    print(f"\n{verdict}: the largest relative difference of two printed numbers is {difference:.1e}, the limit {TOLERANCE:.0e}")
    print(f"scripts and checkpoints are in {folder}")
    return difference <= TOLERANCE


def _run(folder: Path, command: str) -> str:
    """Show and run a command in `folder`; what it printed.

    Raises:
        DemoError: it failed.
    """
    print(f"$ {command}", flush=True)
    lines = []
    with subprocess.Popen(_argv(command), cwd=folder, env=_environment(), stdout=subprocess.PIPE, text=True) as child:
        for line in child.stdout or ():
            print(line, end="", flush=True)
            lines.append(line)
    if child.returncode:
        raise DemoError(f"`{command}` stopped with exit status {child.returncode} in {folder}")
    print(flush=True)
    return "".join(lines)


def _argv(command: str) -> list[str]:
    """The command line with this interpreter, which need not be the first on the user's PATH."""
    program, *arguments = command.split()
    if program == "accel":
        return [sys.executable, "-m", "accel_runtime.launch", *arguments[1:]]
    return [sys.executable, *(["-m", "accel_migrate"] if program == "accel-migrate" else []), *arguments]


def _environment() -> dict[str, str]:
    """One thread per process and no device, so that every machine shows the same comparison."""
    places = [os.path.abspath(place) for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(places), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def epochs(printed: str) -> list[Epoch]:
    """The numbers in what the example printed."""
    return [Epoch(float(loss), float(accuracy)) for loss, accuracy in _EPOCH.findall(printed)]


def largest_difference(original: Sequence[Epoch], migrated: Sequence[Epoch]) -> float:
    """The largest difference between two numbers of the same epoch, over the larger of the two."""
    pairs = [
        pair
        for one, other in zip(original, migrated, strict=True)
        for pair in ((one.loss, other.loss), (one.accuracy, other.accuracy))
    ]
    return max(abs(a - b) / (max(abs(a), abs(b)) or 1.0) for a, b in pairs)


def table(original: Sequence[Epoch], migrated: Sequence[Epoch], processes: int) -> Iterator[str]:
    """Both curves side by side, a line for each epoch."""
    many = f"{processes} process{'' if processes == 1 else 'es'}"
    yield f"       {'original, 1 process':^22} | {'migrated, ' + many:^22}"
    yield f"epoch  {'loss':>10}  {'accuracy':>10} | {'loss':>10}  {'accuracy':>10} | difference of the losses"
    for number, (one, other) in enumerate(zip(original, migrated, strict=True), 1):
        cells = f"{one.loss:10.6f}  {one.accuracy:10.4f} | {other.loss:10.6f}  {other.accuracy:10.4f}"
        yield f"{number:5}  {cells} | {other.loss - one.loss:+.6f}"
