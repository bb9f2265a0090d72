"""How scripts written for Accelerate resume: by `skip_first_batches`, or by passing over batches themselves."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
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

STOP = 4


def train(folder: Path, exact: bool, stop: bool, idiom: str | None) -> list[Any]:
    AcceleratorState._reset_state(True)
    GradientState._reset_state()
    accelerator = Accelerator(cpu=True, split_batches=exact, project_dir=str(folder))
    seed(3 if idiom else 0)
    model: Any = nn.Linear(6, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data(61), batch_size=5, shuffle=True))
    if idiom:
        accelerator.load_state(resume_loaders=idiom != "continue")
    seen = []
    for epoch in range(2):
        active = accelerator.skip_first_batches(loader, STOP) if idiom == "skip" and epoch == 0 else loader
        for step, (x, y) in enumerate(active, active.batches_seen):
            if idiom == "continue" and epoch == 0 and step < STOP:
                continue
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            seen.append((epoch, step, loss.item(), x[:, 0].tolist()))
            if stop and step == STOP - 1:
                accelerator.save_state()
                return seen
    return seen


@pytest.mark.parametrize("idiom", ["skip", "continue", "nothing"])
@pytest.mark.parametrize(("n", "exact"), [(1, True), (2, True), (2, False)])
def test_resumed(tmp_path: Path, idiom: str, n: int, exact: bool) -> None:
    def work() -> tuple[list[Any], list[Any], list[Any]]:
        full = train(tmp_path / "full", exact, False, None)
        return full, train(tmp_path, exact, True, None), train(tmp_path, exact, False, idiom)

    for full, before, after in run_ranks(work, n):
        assert before + after == full


def ahead(loader: Any) -> Iterator[Any]:
    """A prefetcher that is a batch ahead of the training."""
    batches = iter(loader)
    waiting = next(batches)
    for batch in batches:
        yield waiting
        waiting = batch
    yield waiting


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("around", [iter, ahead])
def test_a_prefetcher_around_the_loader_is_warned_of(tmp_path: Path, n: int, around: Any) -> None:
    def work() -> list[str]:
        accelerator = Accelerator(cpu=True, split_batches=True, project_dir=str(tmp_path))
        model: Any = nn.Linear(6, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data(61), batch_size=5))
        for step, (x, y) in enumerate(around(loader)):
            accelerator.backward(nn.functional.mse_loss(model(x), y))
            optimizer.step()
            optimizer.zero_grad()
            if step == 2:
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    accelerator.save_state()
        return [str(warning.message) for warning in caught]

    for said in run_ranks(work, n):
        assert (around is ahead) == any("a prefetcher around the loader" in message for message in said)
