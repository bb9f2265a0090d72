"""Run a script once in each precision, and put together what its processes have measured."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from accel_migrate.compare.figures import printed_figures
from accel_migrate.compare.result import Comparison, Measured
from accel_migrate.errors import UserError
from accel_migrate.verify.errors import hint
from accel_migrate.verify.job import Job, Run
from accel_migrate.verify.warm import ForkingRunner

_HANG_SECONDS = 60.0
_ERROR = re.compile(r"^(\w+\.)*\w*(Error|Exception|Interrupt)\b.*")


def compared(
    job: Job,
    precisions: Sequence[str],
    processes: int,
    steps: int,
    last: int,
    cpu: bool,
    timeout: float,
    warm: ForkingRunner,
    tell: Callable[[str], None],
) -> Comparison:
    """Run `job` in each of `precisions` for `steps` optimizer steps (0: to its end); means of losses are over the `last` ones.

    Raises:
        UserError: the script makes no accelerator, so it has no precision that could be chosen.
    """
    comparison = Comparison(job.shown, processes, steps, last)
    for precision in precisions:
        tell(precision)
        run = _started(job, precision, processes, steps, cpu, timeout, warm)
        comparison.runs.append(_measured(job, precision, run, processes))
    return comparison


def _started(
    job: Job, precision: str, processes: int, steps: int, cpu: bool, timeout: float, warm: ForkingRunner
) -> Run:
    on_cpu = {"CUDA_VISIBLE_DEVICES": "", "ACCELERATE_USE_CPU": "true"} if cpu else {}
    chosen = {"ACCELERATE_MIXED_PRECISION": precision, "ACCELERATE_FP16_ON_CPU": "true", **on_cpu}
    trace = {"hooks": "measured", "steps": steps, "seed": 0, "precision": precision}
    return warm.run(
        replace(job, env={**job.env, **chosen}), processes, timeout=timeout, hang_seconds=_HANG_SECONDS, trace=trace
    )


def _measured(job: Job, precision: str, run: Run, processes: int) -> Measured:
    if error := _error(job, run):
        return Measured(precision, error=error)
    parts = [json.loads(path.read_text(encoding="utf-8")) for path in _records(run, processes)]
    if len(parts) < processes:
        return Measured(
            precision, error="a process ended without a record of what it did: the script leaves past Python's own end"
        )
    if not any(part["accelerators"] for part in parts):
        raise UserError(
            f"{job.shown} makes no Accelerator, so that there is no precision to choose: migrate it first (accel-migrate {job.shown})"
        )
    return _together(precision, parts, run.lines)


def _records(run: Run, processes: int) -> list[Path]:
    return [path for rank in range(processes) if (path := run.streams / f"rank{rank}.json").is_file()]


def _together(precision: str, parts: list[dict[str, Any]], lines: Sequence[str]) -> Measured:
    first = parts[0]
    times, warm = first["times"], first["warm"]
    count = len(times)
    begin = min(warm, count) - 1
    seconds = times[-1] - times[begin] if count > begin + 1 else 0.0
    rows = sum(sum(part["rows"][begin + 1 :]) for part in parts)
    return Measured(
        precision,
        notes=[*dict.fromkeys(note for part in parts for note in part["notes"])],
        steps=count,
        skipped=first["skipped"],
        stopped=first["end"] == "stopped",
        seconds=seconds,
        steps_per_second=(count - 1 - begin) / seconds if seconds else None,
        samples_per_second=rows / seconds if seconds and rows else None,
        peak_memory=max(part["peak_memory"] for part in parts),
        device=first["device"],
        losses=[_mean(step) for step in zip(*(part["losses"] for part in parts), strict=False)],
        metrics={**printed_figures(lines), **first["logged"]},
    )


def _mean(losses: tuple[float | None, ...]) -> float | None:
    known = [loss for loss in losses if loss is not None]
    return sum(known) / len(known) if known else None


def _error(job: Job, run: Run) -> str:
    if run.hung:
        return f"it hangs: its processes computed nothing for {_HANG_SECONDS:g} seconds"
    if run.timed_out:
        return f"not finished after {run.seconds:.0f} seconds"
    if run.succeeded:
        return ""
    lines = [line.strip() for line in run.errors.splitlines() if line.strip()]
    named = [line for line in lines if _ERROR.match(line)]
    said = (named or lines or [f"it ended with exit code {run.exit_code}"])[-1]
    return said + hint(said, job.script)
