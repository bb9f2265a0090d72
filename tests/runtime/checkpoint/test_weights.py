"""Models alone: in parts, with an index, readable by the reference library, and merged."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from accel_runtime import Accelerator
from accel_runtime.checkpoint import shares
from accel_runtime.checkpoint.errors import CheckpointError
from accel_runtime.checkpoint.tensor_files import TensorFile, write_tensors
from accel_runtime.checkpoint.weights import bytes_in
from accel_runtime.commands.merge_weights import main as merge

from ..ranks import run_ranks
from ..training import assert_identical, weights
from .test_faults import Trained, flip


class Tied(nn.Module):
    """Two layers with the same weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight


@pytest.mark.parametrize("safe", [True, False])
@pytest.mark.parametrize("limit", ["10GB", 100])
@pytest.mark.parametrize(
    "kind", [Tied, lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 5))], ids=["tied", "plain"]
)
def test_saved_and_loaded(tmp_path: Path, safe: bool, limit: Any, kind: Any) -> None:
    accelerator = Accelerator(cpu=True)
    model, other = kind(), kind()
    accelerator.save_model(model, tmp_path, limit, safe)
    accelerator.load_model(other, tmp_path)
    assert_identical(weights(other), weights(model))


def test_parts_of_an_earlier_save_go(tmp_path: Path) -> None:
    accelerator = Accelerator(cpu=True)
    (tmp_path / "config.json").write_text("{}")
    accelerator.save_model(nn.Linear(30, 30), tmp_path, "1KB")
    assert "model.safetensors.index.json" in os.listdir(tmp_path)
    accelerator.save_model(nn.Linear(30, 30), tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["config.json", "model.safetensors"]


def test_large_file_begins_its_tensors_at_a_page_and_sums_them_up_as_a_small_one_does(tmp_path: Path) -> None:
    big = torch.randint(0, 255, (5 * 2**20 + 12_345,), dtype=torch.uint8)
    tensors = {"a": torch.randn(7), "b": big, "c": torch.randn(2**18 + 3, dtype=torch.float64), "d": big[:70_000]}
    write_tensors(tmp_path / "all", tensors)
    file = TensorFile(tmp_path / "all")
    assert int.from_bytes((tmp_path / "all").read_bytes()[:8], "little") % 4096 == 4096 - 8
    for name, tensor in tensors.items():
        write_tensors(tmp_path / name, {name: tensor})
        assert TensorFile(tmp_path / name)._checksums[name] == file._checksums[name]
        assert torch.equal(file.tensor(name), tensor)
    flip(tmp_path / "all", 4096 + 5 * 2**20)
    with pytest.raises(CheckpointError, match="'b' has another checksum"):
        [TensorFile(tmp_path / "all").tensor(name) for name in tensors]


def test_index_that_names_a_file_elsewhere(tmp_path: Path) -> None:
    accelerator = Accelerator(cpu=True)
    accelerator.save_model(nn.Linear(30, 30), tmp_path, "1KB")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"weight": "../model.safetensors"}}))
    with pytest.raises(CheckpointError, match="outside the folder"):
        accelerator.load_model(nn.Linear(30, 30), tmp_path)


def test_damage_is_named(tmp_path: Path) -> None:
    accelerator = Accelerator(cpu=True)
    accelerator.save_model(nn.Linear(3, 4), tmp_path)
    flip(tmp_path / "model.safetensors", -1)
    with pytest.raises(CheckpointError, match=r"model.safetensors is damaged: tensor '\w+'"):
        accelerator.load_model(nn.Linear(3, 4), tmp_path)


@pytest.mark.parametrize(("size", "bytes_"), [(100, 100), ("5MB", 5_000_000), ("1.5 KiB", 1536), ("2gb", 2 * 10**9)])
def test_sizes(size: Any, bytes_: int) -> None:
    assert bytes_in(size) == bytes_


def test_size_that_is_none() -> None:
    with pytest.raises(ValueError, match="max_shard_size is 'big'"):
        bytes_in("big")


def test_reference_library_reads_what_we_write_and_we_what_it_writes(tmp_path: Path) -> None:
    reference = pytest.importorskip("safetensors.torch")
    tensors = {
        "float": torch.randn(3, 5),
        "half": torch.randn(7).half(),
        "brain": torch.randn(3).bfloat16(),
        "flags": torch.tensor([True, False, True]),
        "single": torch.tensor(5),
        "empty": torch.empty(0, 4),
        "column": torch.randn(4, 6).t(),
        "float8": torch.randn(5).to(torch.float8_e4m3fn),
    }
    write_tensors(tmp_path / "ours", tensors)
    reference.save_file({name: t.contiguous() for name, t in tensors.items()}, tmp_path / "theirs")
    theirs, ours = reference.load_file(tmp_path / "ours"), TensorFile(tmp_path / "theirs")
    for name, tensor in tensors.items():
        for read in (theirs[name], ours.tensor(name)):
            assert read.dtype == tensor.dtype and read.shape == tensor.shape
            assert (
                read.contiguous().view(-1).view(torch.uint8).equal(tensor.contiguous().view(-1).view(torch.uint8))
                if read.numel()
                else True
            )


def test_every_process_writes_its_part_of_a_large_model_and_they_merge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(shares, "_WORTH_SHARING", 0)

    def work() -> Any:
        trained = Trained(tmp_path)
        after = trained.saved()
        trained.step()
        trained.accelerator.load_state()
        assert_identical(weights(trained.model), after)
        return after

    after = run_ranks(work, 2)[0]
    folder = tmp_path / "checkpoints" / "checkpoint_0"
    index = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    assert set(index.values()) == {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}
    assert merge([str(folder), str(tmp_path / "merged")]) == 0
    merged = nn.Linear(3, 4)
    Accelerator(cpu=True).load_model(merged, tmp_path / "merged")
    assert_identical(weights(merged), after)
    assert merge([str(tmp_path / "nowhere"), str(tmp_path / "merged")]) == 2
    assert "is no folder" in capsys.readouterr().err
