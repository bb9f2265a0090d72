"""Runs on forked gloo processes, which rarely hang (torch's own DistributedDataParallel too), sooner on a busy machine: what counts is what they print."""

from __future__ import annotations

from accel_migrate.verify.job import Job, Run
from accel_migrate.verify.warm import ForkingRunner

ATTEMPTS = 5


def run_patiently(runner: ForkingRunner, job: Job, processes: int) -> Run:
    """The first run of `job` that ends; the last one if none does."""
    for _ in range(ATTEMPTS):
        run = runner.run(job, processes)
        if not run.timed_out:
            break
    return run
