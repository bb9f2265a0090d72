"""Sharded weights: each process writes its block, and any strategy on any number of processes goes on from them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from accel_runtime import Accelerator, FullyShardedDataParallelPlugin, ParallelismConfig
from accel_runtime.checkpoint.errors import CheckpointError
from accel_runtime.state import AcceleratorState, GradientState

from ..ranks import run_ranks
from ..training import data, seed


def settings_of(strategy: str, n: int) -> dict[str, Any]:
    """Arguments of `Accelerator`; "ddp" on one process is plain training."""
    if strategy in ("fsdp", "fsdp, whole"):
        kind = "FULL_STATE_DICT" if "whole" in strategy else "SHARDED_STATE_DICT"
        return {"fsdp_plugin": FullyShardedDataParallelPlugin(state_dict_type=kind)}
    return {"parallelism_config": ParallelismConfig(tp_size=n)} if strategy == "tp" else {}


class Net(nn.Module):
    """Layers that tensor parallelism finds by their names."""

    def __init__(self) -> None:
        super().__init__()
        self.up_proj, self.down_proj = nn.Linear(6, 12), nn.Linear(12, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(torch.tanh(self.up_proj(x)))


def train(
    folder: Path, strategy: str, n: int, stop: int | None = None, resume: bool = False
) -> tuple[list[float], list[str]]:
    AcceleratorState._reset_state(True)
    GradientState._reset_state()
    accelerator = Accelerator(cpu=True, split_batches=True, project_dir=str(folder), **settings_of(strategy, n))
    seed(7 if resume else 0)
    model: Any = Net()
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
    [
        (2, 2, "fsdp", "fsdp"),
        (3, 2, "fsdp", "fsdp"),
        (2, 1, "fsdp", "ddp"),
        (2, 3, "ddp", "fsdp"),
        (2, 2, "fsdp", "tp"),
        (2, 3, "tp", "fsdp"),
        (2, 2, "tp", "ddp"),
        (3, 2, "ddp", "tp"),
        (2, 3, "fsdp, whole", "fsdp"),
        (2, 2, "fsdp, whole", "tp"),
    ],
)
def test_goes_on_under_another_strategy_on_another_number(
    tmp_path: Path, n: int, m: int, before: str, after: str
) -> None:
    full, _ = run_ranks(lambda: train(tmp_path / "full", "ddp", 1), 1)[0]
    _, files = run_ranks(lambda: train(tmp_path, before, n, stop=11), n)[0]
    in_blocks = before in ("fsdp", "tp")
    assert ("model.safetensors" in files) is not in_blocks
    assert (f"model-{n:05d}-of-{n:05d}.safetensors" in files) is in_blocks
    for losses, _ in run_ranks(lambda: train(tmp_path, after, m, resume=True), m):
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
