"""A signal that time is up: the step is finished, the state saved, the status 0, and the next run goes on."""

from __future__ import annotations

import multiprocessing
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from accel_runtime import Accelerator
from accel_runtime.state import AcceleratorState, GradientState

from ..ranks import run_ranks
from ..training import data, seed


def train(
    folder: Path, rank: int | None = None, at: int = 0, number: Any = signal.SIGUSR1, workers: int = 0
) -> list[float]:
    """Train from the newest checkpoint on; process `rank` and its workers receive a signal in step `at`."""
    AcceleratorState._reset_state(True)
    GradientState._reset_state()
    accelerator = Accelerator(cpu=True, split_batches=True, project_dir=str(folder))
    seed()
    model: Any = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.2), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loader = DataLoader(data(37), batch_size=5, shuffle=True, num_workers=workers)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    accelerator.load_state("auto")
    accelerator.save_on_signal()
    losses: list[float] = []
    try:
        for _ in accelerator.epochs(2):
            for x, y in loader:
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(model(x), y)
                accelerator.backward(loss)
                if len(losses) == at and accelerator.process_index == rank:
                    group = (*multiprocessing.active_children(), multiprocessing.current_process())
                    subprocess.run(["kill", f"-{int(number)}", *(str(process.pid) for process in group)], check=True)
                optimizer.step()
                losses.append(accelerator.global_mean(loss).item())
    except SystemExit as leaving:
        assert leaving.code == 0
    return losses


@pytest.mark.parametrize(("n", "rank", "number"), [(1, 0, signal.SIGTERM), (2, 1, signal.SIGUSR1)])
def test_saved_after_the_step_and_resumed(tmp_path: Path, n: int, rank: int, number: Any) -> None:
    full = run_ranks(lambda: train(tmp_path / "full"), n)[0]
    for at in (4, 7):
        folder = tmp_path / str(at)
        before = run_ranks(lambda folder=folder, at=at: train(folder, rank, at, number), n)[0]
        assert before == full[: at + 1]
        assert run_ranks(lambda folder=folder: train(folder), n)[0] == full[at + 1 :]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_workers_that_get_the_signal_too_serve_until_the_state_is_saved(tmp_path: Path, number: Any) -> None:
    full = run_ranks(lambda: train(tmp_path / "full", workers=2), 1)[0]
    before = run_ranks(lambda: train(tmp_path, 0, 4, number, workers=2), 1)[0]
    assert before == full[:5]
    assert run_ranks(lambda: train(tmp_path, workers=2), 1)[0] == full[5:]
