"""Files that `Accelerator.save` writes: those of torch.save, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from accel_runtime import Accelerator


def test_the_bytes_are_those_of_torch_save(tmp_path: Path) -> None:
    state = {"weight": torch.arange(6.0), "epoch": 3}
    (tmp_path / "plain").mkdir()
    torch.save(state, tmp_path / "plain" / "model.pt")
    Accelerator(cpu=True).save(state, tmp_path / "model.pt")
    assert (tmp_path / "model.pt").read_bytes() == (tmp_path / "plain" / "model.pt").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.pt", "plain"]


def test_a_file_that_cannot_be_written_leaves_the_old_one_and_nothing_beside_it(tmp_path: Path) -> None:
    accelerator = Accelerator(cpu=True)
    accelerator.save({"epoch": 1}, tmp_path / "model.pt")
    with pytest.raises(Exception, match="pickle"):
        accelerator.save({"epoch": lambda: 2}, tmp_path / "model.pt")
    assert torch.load(tmp_path / "model.pt") == {"epoch": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt"]
