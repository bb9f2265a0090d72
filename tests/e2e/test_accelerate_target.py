"""`--target accelerate`: the golden scripts on Hugging Face's library, in an environment of its own.

ACCELERATE_PYTHON names an interpreter with torch and accelerate. On one process the numbers are the original's. On
several, that library draws and pads samples in its own way, so that only lines and keys can be the same; where nothing
is padded, the numbers are the original's too once samples come in PyTorch's order (`plain_shuffle`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from accel_migrate.verify.hooks.unpickled import TORCH_SUFFIXES, load_saved
from accel_migrate.verify.job import Job, Run
from accel_migrate.verify.printed import skeleton
from accel_migrate.verify.warm import ForkingRunner
from e2e.compare import compare_runs
from e2e.migrated import LEFT_BY_HAND, NOTHING_MIGRATED, migrate
from e2e.places import PRELOAD, PYTHON_PATH
from e2e.test_golden import ARGS, job

PYTHON = os.environ.get("ACCELERATE_PYTHON")
ON_CPU = {"ACCELERATE_USE_CPU": "true"}
"""Without it, two processes on a host without GPU are two trainings that do not know each other."""
pytestmark = pytest.mark.skipif(not PYTHON, reason="ACCELERATE_PYTHON names no interpreter with accelerate")


CASES = Path(__file__).parent / "cases"
NOT_TRAINED = {"custom_train_method": "accelerate-models", "oom_try_except": ""}
"""Cases with an error for a person (the rule), or refused (nothing)."""
STATISTICS, PADDED = {"batchnorm_small_batch"}, {"onecycle_per_batch", "flat", "full_featured"}
"""Where a finding or a note says that the numbers of two processes are others, in any order of samples."""


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkingRunner]:
    with ForkingRunner(tmp_path_factory.mktemp("runs"), str(PYTHON), (*PRELOAD, "accelerate"), path=[PYTHON_PATH]) as runner:
        yield runner


@pytest.fixture(scope="module")
def in_plain_order(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkingRunner]:
    modules = (*PRELOAD, "accelerate")
    with ForkingRunner(tmp_path_factory.mktemp("plain"), str(PYTHON), modules, in_child="e2e.plain_shuffle:keep", path=[PYTHON_PATH]) as runner:
        yield runner


def original(name: str) -> Job:
    return Job(CASES / name, "before.py") if (CASES / name).exists() else job(name, "before.py")


@pytest.fixture(scope="module")
def after(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Job]:
    done: dict[str, Job] = {}

    def migrated(name: str) -> Job:
        if name not in done:
            before, scratch = original(name), tmp_path_factory.mktemp(name)
            migration = migrate(before.folder, "before.py", scratch, "--target", "accelerate")
            assert migration.migrated, migration.printed
            done[name] = replace(before, folder=migration.folder, env=ON_CPU)
        return done[name]

    return migrated


TRAINED = [*ARGS, *sorted(p.name for p in CASES.iterdir() if p.name not in NOT_TRAINED)]


@pytest.mark.parametrize("name", TRAINED)
def test_one_process_is_the_original(runner: ForkingRunner, after: Callable[[str], Job], name: str) -> None:
    verdict = compare_runs(runner.run(original(name)), runner.run(after(name)))
    assert verdict.same, str(verdict)


@pytest.mark.parametrize("name", [*TRAINED, "handmade_ddp"])
def test_two_processes_print_the_same_lines_and_save_the_same_keys(
    runner: ForkingRunner, after: Callable[[str], Job], name: str
) -> None:
    expected = runner.run(original(name), 2 if name == "handmade_ddp" else 1)
    got = runner.run(after(name), 2)
    assert got.succeeded, got.errors
    assert list(map(skeleton, got.lines)) == list(map(skeleton, expected.lines))
    assert _keys(got) == _keys(expected)


@pytest.mark.parametrize("name", [n for n in TRAINED if n not in STATISTICS | PADDED])
def test_two_processes_are_the_original_but_for_the_order_of_samples(
    in_plain_order: ForkingRunner, after: Callable[[str], Job], name: str
) -> None:
    verdict = compare_runs(in_plain_order.run(original(name)), in_plain_order.run(after(name), 2))
    assert verdict.same, str(verdict)


def test_handmade_ddp_sees_the_samples_it_saw(runner: ForkingRunner, after: Callable[[str], Job]) -> None:
    verdict = compare_runs(runner.run(original("handmade_ddp"), 2), runner.run(after("handmade_ddp"), 2))
    assert verdict.same, str(verdict)


@pytest.mark.parametrize(("name", "rule"), NOT_TRAINED.items())
def test_what_accelerate_cannot_train_is_named(tmp_path: Path, name: str, rule: str) -> None:
    migration = migrate(CASES / name, "before.py", tmp_path, "--target", "accelerate")
    assert migration.exit_code == (LEFT_BY_HAND if rule else NOTHING_MIGRATED)
    assert not rule or rule in {found for _, found in migration.findings}


def _keys(run: Run) -> dict[str, set[str]]:
    saved = [name for name in run.written if Path(name).suffix in TORCH_SUFFIXES]
    return {name: set(load_saved(run.folder / name)) for name in saved}
