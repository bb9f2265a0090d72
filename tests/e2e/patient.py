"""Runs on gloo processes, which rarely hang (torch's own DistributedDataParallel too) or are aborted when they part, sooner on a busy machine.

What counts is what they print.
"""

from __future__ import annotations

from collections.abc import Callable

from accel_migrate.verify.job import Job, Run
from accel_migrate.verify.warm import ForkingRunner

ATTEMPTS = 5


def patiently(attempt: Callable[[], Run]) -> Run:
    """The first run that neither hangs nor is aborted; the last one if there is none."""
    for _ in range(ATTEMPTS):
        run = attempt()
        if not run.timed_out and "signal SIGABRT" not in run.errors:
            break
    return run


def run_patiently(runner: ForkingRunner, job: Job, processes: int) -> Run:
    """A run of `job` on forked processes."""
    return patiently(lambda: runner.run(job, processes))
