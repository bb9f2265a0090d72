"""What the benchmarks share: CPU time of child processes, medians with quartiles, and tables."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "codemod"), str(ROOT / "runtime")]


def environment(**changes: str) -> dict[str, str]:
    """This environment with the checkout's packages first and one thread per process."""
    places = [str(ROOT / "codemod"), str(ROOT / "runtime"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places)), "OMP_NUM_THREADS": "1", **changes}


def python_seconds(*arguments: str) -> float:
    """CPU seconds, user and system, of `python ARGUMENTS`; what it prints is thrown away.

    Raises:
        RuntimeError: it was killed, or wrote a traceback.
    """
    command = [sys.executable, *arguments]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as child:
        errors = child.stderr.read().decode() if child.stderr else ""
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode < 0 or "Traceback" in errors:
        raise RuntimeError(f"{' '.join(command)} failed: {errors}")
    return usage.ru_utime + usage.ru_stime


def spread(values: Sequence[float], digits: int = 2) -> str:
    """The median and the quartiles, as `1.08 [1.04-1.12]`."""
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return f"{middle:.{digits}f} [{low:.{digits}f}-{high:.{digits}f}]"


def quiet(values: Sequence[float]) -> float:
    """The lowest decile: what is measured while nothing else is going on, if anything is."""
    return statistics.quantiles(values, n=10, method="inclusive")[0] if len(values) > 1 else values[0]


def ratios(times: Mapping[str, Sequence[float]], base: str) -> dict[str, list[float]]:
    """The times of each contestant over those of `base` in the same round."""
    return {
        name: [mine / reference for mine, reference in zip(values, times[base], strict=True)]
        for name, values in times.items()
    }


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows of text in columns, for Markdown as for the eye."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for line in [header, ["-" * width for width in widths], *rows]:
        yield f"| {' | '.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))} |"
