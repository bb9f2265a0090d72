"""Sharded weights: each process writes its block, and any strategy on any number of processes goes on from them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from accel_runtime import Accelerator, FullyShardedDataParallelPlugin
from accel_runtime.checkpoint.errors import CheckpointError
from accel_runtime.state import AcceleratorState, GradientState

from ..ranks import run_ranks
from ..training import data, seed


def train(folder: Path, sharded: bool, stop: int | None = None, resume: bool = False) -> tuple[list[float], list[str]]:
    AcceleratorState._reset_state(True)
    GradientState._reset_state()
    plugin = FullyShardedDataParallelPlugin() if sharded else None
    accelerator = Accelerator(cpu=True, split_batches=True, project_dir=str(folder), fsdp_plugin=plugin)
    seed(7 if resume else 0)
    model: Any = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    loader = DataLoader(data(37), batch_size=5, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    if resume:
        accelerator.load_state()
    losses = []
    for _ in accelerator.epochs(2):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            losses.append(accelerator.global_mean(loss).item())
            accelerator.counters["step"] = accelerator.counters.get("step", 0) + 1
            if accelerator.counters["step"] == stop:
                return losses, sorted(os.listdir(accelerator.save_state()))
    return losses, []


@pytest.mark.parametrize(
    ("n", "m", "before", "after"),
    [(2, 2, True, True), (3, 2, True, True), (2, 1, True, False), (2, 3, False, True), (2, 2, True, False)],
)
def test_goes_on_under_another_strategy_on_another_number(
    tmp_path: Path, n: int, m: int, before: bool, after: bool
) -> None:
    full, _ = run_ranks(lambda: train(tmp_path / "full", False), 1)[0]
    _, files = run_ranks(lambda: train(tmp_path, before, stop=11), n)[0]
    assert ("model.safetensors" in files) is not before
    assert (f"model-{n:05d}-of-{n:05d}.safetensors" in files) is before
    for losses, _ in run_ranks(lambda: train(tmp_path, after, resume=True), m):
        assert losses == pytest.approx(full[11:], rel=1e-5)


def test_gradients_that_wait_for_their_step_are_refused(tmp_path: Path) -> None:
    def work() -> None:
        accelerator = Accelerator(cpu=True, fsdp_plugin=FullyShardedDataParallelPlugin(), gradient_accumulation_steps=2)
        model: Any = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model, optimizer = accelerator.prepare(model, optimizer)
        with accelerator.accumulate(model):
            accelerator.backward(model(torch.ones(2, 4)).sum())
        with pytest.raises(CheckpointError, match="after the optimizer's step"):
            accelerator.save_state(tmp_path / "state")

    run_ranks(work, 2)
    assert os.listdir(tmp_path) == []
