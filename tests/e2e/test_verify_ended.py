"""A verification that is ended from outside leaves neither processes nor scratch copies behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.places import PYTHON_PATH

ENDLESS = """\
import os, time
from accel_runtime import Accelerator

accelerator = Accelerator()
with open(os.environ["PIDS"], "a") as file:
    print(os.getpid(), file=file)
while accelerator.num_processes > 1:
    time.sleep(1)
"""
PLENTY = 120.0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs signals at the death of a parent")
@pytest.mark.parametrize("to_group", [False, True], ids=["the command", "its whole group"])
def test_nothing_is_left(tmp_path: Path, to_group: bool) -> None:
    for folder in ("project", "temporary"):
        (tmp_path / folder).mkdir()
    (tmp_path / "project" / "train.py").write_text(ENDLESS)
    pids = tmp_path / "pids"
    env = {**os.environ, "PYTHONPATH": PYTHON_PATH, "PIDS": str(pids), "TMPDIR": str(tmp_path / "temporary")}
    verify = "import sys; from accel_migrate.command.verify import main; sys.exit(main(['train.py', 'train.py', '--processes', '2', '--hang-after', '500']))"
    command = subprocess.Popen([sys.executable, "-c", verify], cwd=tmp_path / "project", env=env, start_new_session=True)
    assert _until(lambda: pids.exists() and len(pids.read_text().split()) == 3), "the original and two processes"
    ranks = [int(pid) for pid in pids.read_text().split()[1:]]
    (os.killpg if to_group else os.kill)(command.pid, signal.SIGTERM)
    assert command.wait(PLENTY) == 130
    assert _until(lambda: not any(_runs(pid) for pid in ranks))
    assert list((tmp_path / "temporary").glob("accel-verify-*")) == []


def _until(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PLENTY
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.2)
    return holds()


def _runs(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
