"""The migration of many programs, on several processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing.context import BaseContext

from accel_migrate.errors import UserError, internal_error
from accel_migrate.project import Project
from accel_migrate.report.outcome import Outcome

Job = Callable[[Project], Outcome]
"""Migrates one program."""

_job: Job | None = None
"""What the workers of this process's pool run."""


def migrate_all(projects: Sequence[Project], job: Job, jobs: int | None) -> Iterator[Outcome | str]:
    """For each project, in order, its outcome, or in one line what went wrong with it; the others go on.

    `jobs`: number of processes; by default one for each core that this process may use.
    """
    workers = min(jobs or _cores(), len(projects))
    if workers < 2:
        yield from (_guarded(job, project) for project in projects)
    else:
        yield from _in_parallel(projects, job, workers)


def _guarded(job: Job, project: Project) -> Outcome | str:
    script = project.entry.path
    try:
        return job(project)
    except UserError as error:
        return str(error)
    except RecursionError:
        return f"{script}: the program is too deeply nested to be analysed; it was left alone"
    except Exception as error:
        return f"{script}: was left alone: {internal_error(error)}"


def _in_parallel(projects: Sequence[Project], job: Job, workers: int) -> Iterator[Outcome | str]:
    with _pool(job, workers) as pool:
        futures = []
        with suppress(BrokenProcessPool):  # then the rest is done below
            futures.extend(pool.submit(_work, project) for project in projects)
        for number, project in enumerate(projects):
            yield _result(futures[number] if number < len(futures) else None, project, job)


def _result(future: Future[Outcome | str] | None, project: Project, job: Job) -> Outcome | str:
    """What `future` gives; where a crash took the pool down, the project is tried alone, since another may be the cause."""
    with suppress(BrokenProcessPool):
        if future is not None:
            return future.result()
    try:
        with _pool(job, 1) as pool:
            return pool.submit(_work, project).result()
    except BrokenProcessPool:
        script = project.entry.path
        return f"{script}: was left alone: its analysis ended without a message (out of memory?); please report what `accel-migrate --jobs 1 {script}` prints"


def _pool(job: Job, workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, mp_context=_context(), initializer=_start, initargs=(job,))


def _context() -> BaseContext:
    """Forked workers start at once, with everything imported; elsewhere the platform's own way."""
    return multiprocessing.get_context("fork" if sys.platform == "linux" else None)


def _start(job: Job) -> None:
    global _job
    _job = job
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C reaches all: this process says nothing of it


def _work(project: Project) -> Outcome | str:
    assert _job is not None
    return _guarded(_job, project)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
