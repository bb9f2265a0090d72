"""One warm process for all runs of scripts, and each original run only once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from accel_migrate.verify.job import Job, Run
from accel_migrate.verify.warm import ForkingRunner
from e2e.places import PRELOAD


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkingRunner]:
    with ForkingRunner(tmp_path_factory.mktemp("runs"), preload=PRELOAD) as runner:
        yield runner


@pytest.fixture(scope="session")
def run_once(runner: ForkingRunner) -> Callable[..., Run]:
    """`run_once(job, processes, reverse_batches=...)`: runs that several tests compare with."""
    done: dict[tuple[Path, str, tuple[str, ...], int, bool], Run] = {}

    def run(job: Job, processes: int = 1, *, reverse_batches: bool = False) -> Run:
        key = (job.folder, job.script, job.args, processes, reverse_batches)
        if key not in done:
            done[key] = runner.run(job, processes, reverse_batches=reverse_batches)
        return done[key]

    return run
