"""Signals to the launcher: passed on to the processes that take them, and the launcher ends as they do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from accel_runtime import launch, launch_signals
from accel_runtime.launch_signals import _receivers, _takes

RUNTIME = str(Path(launch.__file__).parent.parent)

TRAINS = """
import sys, time
import torch
from accel_runtime import Accelerator
accelerator = Accelerator(cpu=True, project_dir=sys.argv[1])
data = torch.utils.data.TensorDataset(torch.ones(4096, 2))
model = torch.nn.Linear(2, 1)
workers = int(sys.argv[2])
model, optimizer, loader = accelerator.prepare(
    model, torch.optim.SGD(model.parameters(), lr=0.1), torch.utils.data.DataLoader(data, batch_size=1, num_workers=workers)
)
accelerator.save_on_signal()
for step, (x,) in enumerate(loader):
    accelerator.backward(model(x).sum())
    optimizer.step()
    time.sleep(0.05)
    if step == 1:
        sys.stdout.write("ready\\n")
        sys.stdout.flush()
"""

BARE = """
import os, time
os.write(1, b"ready\\n")
time.sleep(60)
"""


def started(path: Path, text: str, *arguments: str) -> subprocess.Popen[str]:
    """A launch of two processes, both of which are under way."""
    path.write_text(text)
    command = [sys.executable, "-m", "accel_runtime.launch", "--cpu", "--num_processes", "2", str(path), *arguments]
    env = {**os.environ, "PYTHONPATH": RUNTIME, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["ready\n"] * 2
    return process


@pytest.mark.torchrun
@pytest.mark.parametrize(("number", "workers"), [(signal.SIGUSR1, 0), (signal.SIGTERM, 1)])
def test_a_training_that_takes_the_signal_saves_and_the_launch_ends_with_0(
    tmp_path: Path, number: Any, workers: int
) -> None:
    process = started(tmp_path / "train.py", TRAINS, str(tmp_path), str(workers))
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    checkpoint = tmp_path / "checkpoints" / "checkpoint"
    assert (process.returncode, out, err) == (0, f"stopped by a signal, saved in {checkpoint}\n", "")
    assert (checkpoint / "manifest.json").is_file()


@pytest.mark.torchrun
@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
def test_a_script_that_does_not_is_ended_as_without_a_launcher(tmp_path: Path, number: Any) -> None:
    process = started(tmp_path / "bare.py", BARE)
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (128 + number, ""), err
    assert ("save_on_signal" in err) == (number == signal.SIGUSR1)


FAILS = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
os.write(1, b"ready\\n")
for _ in range(600):  # a signal that comes just before a sleep begins is seen after it
    time.sleep(0.1)
"""


@pytest.mark.torchrun
def test_a_script_that_fails_when_it_has_taken_the_signal_is_reported(tmp_path: Path) -> None:
    process = started(tmp_path / "fails.py", FAILS)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (3, "") and "failed first, with exit code 3" in err


def test_a_signal_while_processes_are_being_started_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    known: list[list[str]] = [[], [], ["process"]]
    seen = threading.Event()
    monkeypatch.setattr(launch_signals, "_processes", lambda: known.pop(0))
    monkeypatch.setattr(launch_signals, "_has_children", lambda: True)
    monkeypatch.setattr(launch_signals, "_receivers", lambda *_: [])
    monkeypatch.setattr(launch_signals, "_send", lambda *_: seen.set())
    before = {name: signal.getsignal(getattr(signal, name)) for name in launch_signals.PASSED_ON}
    try:
        launch_signals.pass_on(SimpleNamespace(running=list))  # type: ignore[arg-type]
        os.kill(os.getpid(), signal.SIGUSR2)
        assert seen.wait(30) and not known
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


def sleeping(handler: str) -> subprocess.Popen[bytes]:
    code = f"import signal, time; {handler}; print(flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()
    return process


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the system does not say who takes a signal")
def test_a_signal_is_for_those_that_take_it_else_for_all() -> None:
    number = signal.SIGUSR2
    takes = sleeping("signal.signal(signal.SIGUSR2, print)")
    not_this = sleeping("pass")
    try:
        assert (_takes(takes.pid, number), _takes(not_this.pid, number)) == (True, False)
        assert _receivers([takes, not_this], [takes.pid, os.getpid()], number) == [takes.pid]
        assert _receivers([not_this], [], number) == [not_this.pid]
    finally:
        for process in (takes, not_this):
            process.kill()
            process.communicate()
