"""States that Accelerate has saved are loaded: its file names and formats."""

from __future__ import annotations

import random
from pathlib import Path

import numpy
import pytest
import torch
from torch import nn

from accel_runtime import Accelerator
from accel_runtime.checkpoint.errors import CheckpointError
from accel_runtime.checkpoint.tensor_files import write_tensors

from ..training import assert_identical, weights


def saved_by_accelerate(folder: Path, safe: bool) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A folder as `accelerate` 1.15 leaves it."""
    model = nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    if safe:
        write_tensors(folder / "model.safetensors", model.state_dict())
    else:
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
    torch.save(optimizer.state_dict(), folder / "optimizer.bin")
    streams = {
        "step": 0,
        "random_state": random.getstate(),
        "numpy_random_seed": numpy.random.get_state(),
        "torch_manual_seed": torch.get_rng_state(),
    }
    torch.save(streams, folder / "random_states_0.pkl")
    return model, optimizer


@pytest.mark.parametrize("safe", [True, False])
def test_loaded(tmp_path: Path, safe: bool) -> None:
    model, optimizer = saved_by_accelerate(tmp_path, safe)
    drawn = [torch.rand(2).tolist(), random.random(), numpy.random.rand()]
    accelerator = Accelerator(cpu=True)
    other = nn.Linear(3, 2)
    stepped = torch.optim.Adam(other.parameters())
    accelerator.prepare(other, stepped)
    assert accelerator.load_state(tmp_path) == str(tmp_path)
    assert [torch.rand(2).tolist(), random.random(), numpy.random.rand()] == drawn
    assert_identical(weights(other), weights(model))
    assert_identical(stepped.state_dict(), optimizer.state_dict())


def test_missing_file_is_named_and_nothing_changes(tmp_path: Path) -> None:
    saved_by_accelerate(tmp_path, True)
    (tmp_path / "optimizer.bin").unlink()
    accelerator = Accelerator(cpu=True)
    other = nn.Linear(3, 2)
    accelerator.prepare(other, torch.optim.Adam(other.parameters()))
    before = weights(other)
    with pytest.raises(CheckpointError, match=r"optimizer.bin cannot be read"):
        accelerator.load_state(tmp_path)
    assert_identical(weights(other), before)
