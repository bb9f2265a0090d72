"""Many programs in one run: on several processes, in order, whatever becomes of one of them."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from accel_migrate.command import cli
from accel_migrate.command.progress import with_progress
from accel_migrate.project import Project, load_project
from accel_migrate.result import Options, Result
from codemod.conftest import Files
from codemod.fake import fake_migrate

TRAIN = "import torch\n\nloss.backward()\n"


def programs(files: Files, number: int = 6) -> Path:
    return files({f"train{i}.py": TRAIN + f"x = {i}  # info\n" for i in range(number)})


def test_the_report_does_not_depend_on_the_number_of_processes(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    programs(files)
    printed = []
    for jobs in ("1", "3"):
        assert cli.main([".", "--jobs", jobs], migrate=fake_migrate) == 0
        printed.append(capsys.readouterr())
    assert printed[0] == printed[1]
    assert printed[0].out.count("+++") == 6
    assert printed[0].err == ""


@pytest.mark.skipif(sys.platform != "linux", reason="the workers inherit the pipeline of this test by fork")
@pytest.mark.parametrize("jobs", ["2", "3"])
def test_a_process_that_dies_takes_no_other_program_with_it(
    jobs: str, files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    root = programs(files)

    def deadly(project: Project, options: Options) -> Result:
        if project.entry.module == "train2":
            os._exit(139)
        return fake_migrate(project, options)

    assert cli.main([".", "--write", "--jobs", jobs], migrate=deadly) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: train2.py: was left alone: its analysis ended without a message")
    assert err.count("\n") == 1
    changed = {path.name for path in root.iterdir() if "accelerator" in path.read_text()}
    assert changed == {f"train{i}.py" for i in range(6) if i != 2}


SLOW = """
import time, sys
from accel_migrate.command.cli import main
def slow(project, options):
    sys.stdout.write("working\\n"); sys.stdout.flush()
    time.sleep(60)
sys.exit(main([".", "--jobs", "2"], migrate=slow))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the workers inherit the pipeline of this test by fork")
def test_an_interrupt_ends_all_processes_with_one_line(files: Files) -> None:
    root = programs(files)
    env = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])}
    child = subprocess.Popen(
        [sys.executable, "-c", SLOW], cwd=root, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert child.stdout is not None
    assert child.stdout.readline().startswith("working")
    os.killpg(child.pid, signal.SIGINT)
    _, err = child.communicate(timeout=30)
    assert (child.returncode, err) == (130, "accel-migrate: interrupted\n")


@pytest.mark.parametrize("number", ["0", "-1", "two", "1.5"])
def test_the_number_of_processes_is_checked(number: str, files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train.py", f"--jobs={number}"]) == 2
    assert f"argument --jobs: {number} is not an integer from 1 up" in capsys.readouterr().err


def test_projects_travel_without_their_trees(files: Files) -> None:
    deep = "x = " + "+".join(["1"] * 300) + "\n"
    files({"train.py": TRAIN + deep + "import lib\n", "lib.py": "y = 1\n"})
    project = load_project(Path("train.py"))
    assert "tree" in vars(project.entry)
    copy = pickle.loads(pickle.dumps(project))
    assert copy.entry is copy.sources["train"]
    assert copy.entry.text == project.entry.text
    assert "tree" not in vars(copy.entry)


def test_a_bar_on_a_terminal_and_nothing_on_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert list(with_progress(iter("abc"), 3)) == ["a", "b", "c"]
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert list(with_progress(iter("a"), 1)) == ["a"]
    assert capsys.readouterr() == ("", "")
    assert list(with_progress(iter("abc"), 3)) == ["a", "b", "c"]
    out, err = capsys.readouterr()
    assert (out, "accel-migrate: " in err, "3/3" in err or "0/3" in err) == ("", True, True)
