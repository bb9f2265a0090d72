"""Values, names and folders at the edge of what states hold."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import nn

from accel_runtime import Accelerator
from accel_runtime.checkpoint import staging
from accel_runtime.checkpoint.errors import CheckpointError

from ..training import assert_identical, weights
from .test_faults import Trained, flip


class Holder:
    """An object whose state is one value."""

    def __init__(self, value: Any = None) -> None:
        self.value = value

    def state_dict(self) -> dict[str, Any]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.value = state["value"]


class Own:
    """What only pickle can store."""


class Odd(nn.Module):
    """Buffers of types for which safetensors has no name, and a state beside tensors."""

    def __init__(self, value: float = 0.0) -> None:
        super().__init__()
        self.register_buffer("wide", torch.full((3,), value, dtype=torch.complex128))
        self.register_buffer("narrow", torch.full((4,), value).to(torch.float8_e5m2fnuz))
        self.extra = numpy.full(5, value)

    def get_extra_state(self) -> dict[str, Any]:
        return {"extra": self.extra}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.extra = state["extra"]


def registered(*values: Any) -> tuple[Accelerator, list[Holder]]:
    accelerator, holders = Accelerator(cpu=True), [Holder(value) for value in values]
    accelerator.register_for_checkpointing(*holders)
    return accelerator, holders


@pytest.mark.parametrize("size", [4, 5000, 10**6])
def test_arrays_and_the_stream_of_numpy(tmp_path: Path, size: int) -> None:
    accelerator, _ = registered(numpy.arange(size), numpy.arange(size, dtype="f4"))
    accelerator.save_state(tmp_path / "state")
    drawn = numpy.random.rand(3)
    accelerator, holders = registered(None, None)
    accelerator.load_state(tmp_path / "state")
    assert all(numpy.array_equal(holder.value, numpy.arange(size)) for holder in holders)
    assert numpy.array_equal(numpy.random.rand(3), drawn)


def test_model_of_types_that_safetensors_does_not_know(tmp_path: Path) -> None:
    accelerator = Accelerator(cpu=True)
    accelerator.prepare(Odd(1.5))
    accelerator.save_state(tmp_path / "state")
    accelerator, model = Accelerator(cpu=True), Odd()
    accelerator.prepare(model)
    accelerator.load_state(tmp_path / "state")
    assert_identical(
        {"wide": model.wide, "narrow": model.narrow.float()}, {"wide": Odd(1.5).wide, "narrow": Odd(1.5).narrow.float()}
    )
    assert model.extra.tolist() == [1.5] * 5


def test_tensor_with_the_name_that_the_format_keeps(tmp_path: Path) -> None:
    model = nn.Module()
    model.register_parameter("__metadata__", nn.Parameter(torch.ones(2)))
    accelerator = Accelerator(cpu=True)
    accelerator.prepare(model)
    with pytest.raises(CheckpointError, match=r"keeps for itself; use save_state.*safe_serialization=False"):
        accelerator.save_state(tmp_path / "state")
    with pytest.raises(CheckpointError, match="keeps for itself"):
        accelerator.save_model(model, tmp_path)


def test_what_is_not_unpickled_is_refused_before_anything_changes(tmp_path: Path) -> None:
    accelerator, _ = registered(1, Own())
    accelerator.save_state(tmp_path / "state")
    accelerator, holders = registered(None, None)
    with pytest.raises(CheckpointError, match=r"custom_checkpoint_1\.pkl holds objects"):
        accelerator.load_state(tmp_path / "state")
    assert [holder.value for holder in holders] == [None, None]
    accelerator.load_state(tmp_path / "state", load_kwargs={"weights_only": False})
    assert holders[0].value == 1 and isinstance(holders[1].value, Own)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "mine/notes.txt"])
def test_damaged_file_of_any_kind_is_passed_over(tmp_path: Path, name: str) -> None:
    trained = Trained(tmp_path)

    def hook(models: Any, states: Any, folder: str) -> None:
        os.mkdir(Path(folder) / "mine")
        (Path(folder) / "mine" / "notes.txt").write_text("of this state")

    trained.accelerator.register_save_state_pre_hook(hook)
    good = trained.step()
    trained.accelerator.save_state(safe_serialization=False)
    trained.step()
    trained.accelerator.save_state(safe_serialization=False)
    flip(trained.folder / "checkpoint_1" / name, -2)
    with pytest.warns(UserWarning, match=f"passing over .*{name} is damaged"):
        assert trained.accelerator.load_state() == str(trained.folder / "checkpoint_0")
    assert_identical(weights(trained.model), good)


def test_state_of_another_optimizer(tmp_path: Path) -> None:
    trained = Trained(tmp_path)
    trained.saved()
    accelerator = Accelerator(cpu=True, project_dir=tmp_path)
    accelerator.prepare(trained.model, torch.optim.SGD(trained.model.parameters(), lr=0.1))
    with pytest.raises(CheckpointError, match=r"of another optimizer: it has options .*betas.* SGD has .*momentum"):
        accelerator.load_state(trained.folder / "checkpoint_0")


def test_what_the_script_has_in_the_folder_stays(tmp_path: Path) -> None:
    state = tmp_path / "state"
    (state / ".hydra").mkdir(parents=True)
    (state / ".hydra" / "config.yaml").write_text("a: 1")
    (state / "empty").mkdir()
    (state / "log.txt").write_text("line")
    (state / "latest").symlink_to("log.txt")
    (state / "elsewhere").symlink_to(tmp_path, target_is_directory=True)
    trained = Trained(tmp_path)
    trained.accelerator.project_configuration.automatic_checkpoint_naming = False
    for _ in range(2):
        trained.accelerator.save_state(state)
    assert {".hydra", "empty", "log.txt", "latest", "elsewhere"} < set(os.listdir(state))
    assert (state / ".hydra" / "config.yaml").read_text() == "a: 1" and (state / "latest").read_text() == "line"
    assert os.readlink(state / "elsewhere") == str(tmp_path)
    trained.accelerator.load_state(state)


def test_folders_as_users_write_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    accelerator, _ = registered(1)
    for folder in ("", ".", "..", tmp_path / "here"):
        with pytest.raises(CheckpointError, match="in which this process works: give it a folder of its own"):
            accelerator.save_state(folder)
    accelerator.save_state("~/a/b/")
    accelerator.load_state("~/a/b")
    assert os.listdir(tmp_path / "a") == ["b"] and os.listdir(tmp_path / "here") == []


def test_savers_do_not_take_each_others_beginnings_for_left_overs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = staging._try_lock

    def late(file: Any) -> bool:
        monkeypatch.undo()
        staging.Staging(tmp_path / "b").discard()
        return lock(file)

    monkeypatch.setattr(staging, "_try_lock", late)
    ours = staging.Staging(tmp_path / "a")
    (ours.path / "file").write_text("")
    assert ours.move_to(tmp_path / "a", fresh=True) and os.listdir(tmp_path) == ["a"]
    left = tmp_path / f".a{staging._BEGUN}0123456789ab"
    left.mkdir()
    os.utime(left, (0, 0))
    staging.Staging(tmp_path / "b").discard()
    assert os.listdir(tmp_path) == ["a"]
