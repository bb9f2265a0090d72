"""`accel demo`: what it compares and says, and once in earnest."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from accel_migrate.command import demo
from accel_migrate.command.demo import Epoch
from accel_migrate.resources import resource

ROOT = Path(__file__).parents[1]
PRINTED = "reading\nepoch 1: loss 1.500000, test accuracy 0.8000\nepoch 2: loss 0.500000, test accuracy 0.9000\n"


def test_numbers_are_read_from_what_was_printed() -> None:
    assert demo.epochs(PRINTED) == [Epoch(1.5, 0.8), Epoch(0.5, 0.9)]


@pytest.mark.parametrize(
    ("migrated", "difference"),
    [
        pytest.param(Epoch(2.0, 0.5), 0.0, id="equal"),
        pytest.param(Epoch(1.9, 0.5), 0.05, id="the loss differs"),
        pytest.param(Epoch(2.0, 0.4), 0.2, id="the accuracy differs"),
    ],
)
def test_largest_difference(migrated: Epoch, difference: float) -> None:
    first = Epoch(1.0, 0.0)
    assert demo.largest_difference([first, Epoch(2.0, 0.5)], [first, migrated]) == pytest.approx(difference)


def test_table_has_a_line_for_each_epoch() -> None:
    lines = list(demo.table(demo.epochs(PRINTED), demo.epochs(PRINTED), 3))
    assert "migrated, 3 processes" in lines[0]
    assert lines[2].split() == ["1", "1.500000", "0.8000", "|", "1.500000", "0.8000", "|", "+0.000000"]
    assert len(lines) == 4


def test_missing_packages_are_named_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert demo.main([]) == 2
    assert capsys.readouterr().err == (
        "accel demo: error: needs torch and scikit-learn; install with: pip install 'accel-migrate[demo]'\n"
    )


@pytest.mark.parametrize(
    ("migrated", "status"),
    [
        pytest.param(PRINTED, 0, id="the same"),
        pytest.param(PRINTED.replace("0.500000", "0.600000"), 1, id="another loss"),
        pytest.param("", 2, id="nothing to compare"),
    ],
)
def test_exit_status(migrated: str, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_run", lambda _, command: migrated if "launch" in command else PRINTED)
    monkeypatch.setattr(demo, "_check_packages", lambda: None)
    assert demo.main([]) == status


def test_a_failing_command_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(demo, "_argv", lambda _: [sys.executable, "-c", "raise SystemExit(7)"])
    monkeypatch.setattr(demo, "_check_packages", lambda: None)
    assert demo.main([]) == 2
    assert "accel demo: error: `accel-migrate train.py --diff` stopped with exit status 7" in capsys.readouterr().err


@pytest.mark.parametrize("given", ["0", "two"])
def test_wrong_number_of_processes(given: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        demo.main(["--processes", given])


def test_the_example_is_a_plain_script() -> None:
    assert "accel" not in (resource("examples") / "digits" / "train.py").read_text()


@pytest.mark.slow
@pytest.mark.torchrun
def test_both_versions_train_the_same(tmp_path: Path) -> None:
    places = os.pathsep.join(str(ROOT / place) for place in ("codemod", "runtime"))
    environment = {**os.environ, "PYTHONPATH": places, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", "from accel_migrate.command.umbrella import main; raise SystemExit(main(['demo']))"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "+    accelerator = Accelerator(split_batches=True)" in done.stdout
    assert "0 by hand" in done.stdout
    assert "\nthe same: the largest relative difference" in done.stdout
    (folder,) = tmp_path.glob("accel-demo-*")
    assert str(folder) in done.stdout
    assert {file.name for file in folder.iterdir()} == {"train.py", "migrated", "original.pt", "migrated.pt"}
