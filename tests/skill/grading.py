"""Grade what an assistant made of a scenario's project: it is run on two processes, and must do what the original did on one.

Numbers in lines, files with their keys and values, hangs, and whether the processes share the reading. How it was made does not matter: with
accel_runtime, Hugging Face Accelerate or torch.distributed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from accel_migrate.verify.job import Job, Run
from accel_migrate.verify.warm import ForkingRunner
from e2e.compare import compare_runs
from e2e.places import PRELOAD, REPOSITORY

FOLDER = Path(__file__).parent / "scenarios"
SCRIPT = "train.py"
TIMEOUT, HANG = 180.0, 30.0
"""Seconds for a call, and without any computation before it counts as a hang; ample, since machines may be busy."""


@dataclass(frozen=True)
class Scenario:
    """`runs` are arguments of calls one after the other in one folder; `shares`: the processes together read about as many samples as one did;
    `alone`: the result has to run on one process too, and to print the same there."""

    runs: tuple[tuple[str, ...], ...] = ((),)
    shares: bool = True
    alone: bool = False


SCENARIOS = {
    "accumulation": Scenario(),
    "amp": Scenario(),
    "contrastive": Scenario(),
    "early_stopping": Scenario(),
    "ema": Scenario(shares=False),
    "f1": Scenario(),
    "gan": Scenario(),
    "outputs": Scenario(shares=False),
    "resume": Scenario(runs=(("--stop-after", "2"), ("--resume",))),
    "same_results": Scenario(alone=True),
    "scheduler": Scenario(runs=(("--epochs", "2", "--batch-size", "20"),)),
    "stream": Scenario(shares=False),
}
"""By the name of the folder. Reading is not counted where an augmentation that is drawn while reading, an evaluation on all processes or a stream makes
reading more than once right."""
_SLACK = 1.6
"""Times as many samples read as by the original: the first batch of an epoch may be read by all."""


@contextmanager
def grader(scratch: Path) -> Iterator[ForkingRunner]:
    """What runs the scripts: one warm process for all of them."""
    tests = str(REPOSITORY / "tests")
    with ForkingRunner(
        scratch, preload=PRELOAD, in_child="skill.reads:count", path=[tests], env={"ACCELERATE_USE_CPU": "true"}
    ) as runner:
        yield runner


def grade(name: str, folder: Path, runner: ForkingRunner) -> list[str]:
    """What is wrong with the result in `folder`; nothing if it passes.

    Raises:
        KeyError: there is no such scenario.
    """
    scenario = SCENARIOS[name]
    original = Job(FOLDER / name / "project", SCRIPT)
    if not (folder / SCRIPT).is_file():
        return [f"there is no {SCRIPT} in {folder}"]
    expected, read = _sequence(runner, original, scenario.runs, 1)
    control = (
        runner.run(replace(original, args=scenario.runs[0]), reverse_batches=True) if len(scenario.runs) == 1 else None
    )
    wrong = []
    for processes in (2, 1) if scenario.alone else (2,):
        got, together = _sequence(runner, Job(folder, SCRIPT), scenario.runs, processes)
        for number, (one, other) in enumerate(zip(expected, got, strict=False)):
            verdict = compare_runs(one, other, control)
            where = f"{processes} process{'es' if processes > 1 else ''}{f', call {number + 1}' if len(expected) > 1 else ''}"
            wrong += [
                f"{where}: {'it hangs' if other.hung or other.timed_out else reason}" for reason in verdict.reasons[:4]
            ]
        if scenario.shares and not wrong and together > _SLACK * read:
            wrong.append(
                f"{processes} processes read {together} samples, the original {read}: the work is not shared out"
            )
    return wrong


def _sequence(
    runner: ForkingRunner, job: Job, runs: Sequence[tuple[str, ...]], processes: int
) -> tuple[list[Run], int]:
    """Each call in the folder that the one before left, up to the first that fails; and the number of samples read in all."""
    counter = runner.scratch / "reads"
    counter.unlink(missing_ok=True)
    done: list[Run] = []
    folder = job.folder
    for arguments in runs:
        called = replace(job, folder=folder, args=arguments, env={"GRADE_READS": str(counter)})
        run = runner.run(called, processes, timeout=TIMEOUT, hang_seconds=HANG)
        folder = run.folder
        done.append(run if len(runs) == 1 else _kept(runner, run, done[-1] if done else None))
        if not run.succeeded:
            break
    return done, counter.stat().st_size if counter.exists() else 0


def _kept(runner: ForkingRunner, run: Run, before: Run | None) -> Run:
    """The run with a copy of its folder, in which the next call goes on; `written` is what differs from the copy `before` it."""
    folder = Path(tempfile.mkdtemp(dir=runner.scratch)) / "kept"
    shutil.copytree(run.folder, folder)
    if before is None:
        return replace(run, folder=folder)
    files = (
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    )
    return replace(
        run, folder=folder, written=tuple(name for name in files if not _same(folder / name, before.folder / name))
    )


def _same(file: Path, other: Path) -> bool:
    return other.is_file() and file.read_bytes() == other.read_bytes()


def fixture(name: str, kind: str, target: Path) -> Path:
    """A copy of the scenario's project in `target`, as the answer `kind` (untouched, wrong, right) left it."""
    shutil.copytree(FOLDER / name / "project", target)
    if kind != "untouched":
        shutil.copytree(FOLDER / name / kind, target, dirs_exist_ok=True)
    return target


def names() -> list[str]:
    return sorted(entry.name for entry in os.scandir(FOLDER) if entry.is_dir())
