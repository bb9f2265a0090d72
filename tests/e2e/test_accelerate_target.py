"""`--target accelerate`: the golden scripts on Hugging Face's library, in an environment of its own.

ACCELERATE_PYTHON names an interpreter with torch and accelerate. On one process the numbers are the original's. On
several, that library draws and pads samples in its own way, so that only lines and keys can be the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from e2e.compare import compare_runs
from e2e.forked import PRELOADED, ForkingRunner
from e2e.job import Job, Run
from e2e.migrated import migrate
from e2e.printed import skeleton
from e2e.test_golden import ARGS, job
from e2e.unpickled import TORCH_SUFFIXES, load_saved

PYTHON = os.environ.get("ACCELERATE_PYTHON")
ON_CPU = {"ACCELERATE_USE_CPU": "true"}
"""Without it, two processes on a host without GPU are two trainings that do not know each other."""
pytestmark = pytest.mark.skipif(not PYTHON, reason="ACCELERATE_PYTHON names no interpreter with accelerate")


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkingRunner]:
    with ForkingRunner(tmp_path_factory.mktemp("runs"), str(PYTHON), (*PRELOADED, "accelerate")) as runner:
        yield runner


@pytest.fixture(scope="module")
def after(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Job]:
    done: dict[str, Job] = {}

    def migrated(name: str) -> Job:
        if name not in done:
            scratch = tmp_path_factory.mktemp(name)
            migration = migrate(job(name, "before.py").folder, "before.py", scratch, "--target", "accelerate")
            assert migration.migrated, migration.printed
            done[name] = replace(job(name, "before.py", migration.folder), env=ON_CPU)
        return done[name]

    return migrated


@pytest.mark.parametrize("name", ARGS)
def test_one_process_is_the_original(runner: ForkingRunner, after: Callable[[str], Job], name: str) -> None:
    verdict = compare_runs(runner.run(job(name, "before.py")), runner.run(after(name)))
    assert verdict.same, str(verdict)


@pytest.mark.parametrize("name", [*ARGS, "handmade_ddp"])
def test_two_processes_print_the_same_lines_and_save_the_same_keys(
    runner: ForkingRunner, after: Callable[[str], Job], name: str
) -> None:
    original = runner.run(job(name, "before.py"), 2 if name == "handmade_ddp" else 1)
    got = runner.run(after(name), 2)
    assert got.succeeded, got.errors
    assert list(map(skeleton, got.lines)) == list(map(skeleton, original.lines))
    assert _keys(got) == _keys(original)


def _keys(run: Run) -> dict[str, set[str]]:
    saved = [name for name in run.written if Path(name).suffix in TORCH_SUFFIXES]
    return {name: set(load_saved(run.folder / name)) for name in saved}
