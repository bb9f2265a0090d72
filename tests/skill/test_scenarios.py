"""The graders: each fails the untouched project and the typical wrong answer, and passes a right one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from accel_migrate.verify.warm import ForkingRunner
from skill import grade
from skill.grading import FOLDER, SCENARIOS, fixture, grader, names
from skill.grading import grade as graded

TRAPS = (
    "accumul",
    "zero_grad",
    "gather",
    "F1 score",
    "drop_last",
    "BatchNorm",
    "wandb",
    "noise",
    "split_batches",
    "unwrap",
)


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkingRunner]:
    with grader(tmp_path_factory.mktemp("graded")) as runner:
        yield runner


@pytest.mark.parametrize("kind", ["untouched", "wrong", "right"])
@pytest.mark.parametrize("name", names())
def test_graders_tell_right_from_wrong(name: str, kind: str, runner: ForkingRunner, tmp_path: Path) -> None:
    wrong = graded(name, fixture(name, kind, tmp_path / name), runner)
    assert bool(wrong) == (kind != "right"), wrong


def test_every_scenario_is_complete() -> None:
    assert names() == sorted(SCENARIOS) and len(names()) >= 12
    for name in names():
        task = (FOLDER / name / "task.md").read_text()
        assert task.strip() and not [word for word in TRAPS if word in task], name
        assert all((FOLDER / name / kind / "train.py").is_file() for kind in ("project", "wrong", "right"))


def test_the_command_says_what_it_grades(capsys: pytest.CaptureFixture[str]) -> None:
    assert grade.main([]) == 0
    assert capsys.readouterr().out.count("\n") == len(names())
    assert grade.main(["nonsense", "."]) == 2
