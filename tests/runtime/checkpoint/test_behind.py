"""What goes on behind the training: on the way to the disk, and copies whose memory is there before they are made."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from accel_runtime import Accelerator, ProjectConfiguration
from accel_runtime.checkpoint.background import Background
from accel_runtime.checkpoint.copies import Copies
from accel_runtime.checkpoint.disk import is_local
from accel_runtime.checkpoint.errors import CheckpointError
from accel_runtime.checkpoint.notes import Notes
from accel_runtime.checkpoint.parallel import all_of

from ..ranks import run_ranks
from ..training import assert_identical, weights
from .test_faults import Trained


def names(trained: Trained) -> list[str]:
    return sorted(os.listdir(trained.folder))


def test_older_ones_stay_until_the_newest_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = Trained(tmp_path, limit=1)
    trained.saved()
    trained.accelerator.wait_for_checkpoint()
    fsync, disk = os.fsync, threading.Event()
    monkeypatch.setattr(os, "fsync", lambda handle: (disk.wait(60), fsync(handle))[1])
    trained.saved()
    assert names(trained) == ["checkpoint_0", "checkpoint_1"]
    disk.set()
    trained.accelerator.wait_for_checkpoint()
    assert names(trained) == ["checkpoint_1"]


def test_what_is_replaced_stays_until_its_successor_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = Trained(tmp_path)
    trained.accelerator.project_configuration.automatic_checkpoint_naming = False
    trained.accelerator.save_state(tmp_path / "last")
    good = trained.step()
    trained.accelerator.save_state(tmp_path / "last")
    trained.step()
    monkeypatch.setattr(os, "fsync", _failing)
    with pytest.raises(CheckpointError, match="Input/output error"):
        trained.accelerator.save_state(tmp_path / "last")
    monkeypatch.undo()
    trained.accelerator.load_state(tmp_path / "last")
    assert_identical(weights(trained.model), good)


def _failing(handle: int) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize("rank", [0, 1])
def test_disk_that_fails_later_is_told_on_all_and_the_checkpoint_withdrawn(tmp_path: Path, rank: int) -> None:
    def work() -> tuple[str, list[str]]:
        trained = Trained(tmp_path)
        trained.saved()
        trained.accelerator.wait_for_checkpoint()
        fsync = os.fsync
        if trained.accelerator.process_index == rank:
            os.fsync = _failing
        trained.saved()
        with pytest.raises(CheckpointError) as caught:
            trained.saved()
        os.fsync = fsync
        found = names(trained)
        trained.saved()
        trained.accelerator.end_training()
        return str(caught.value), found

    for message, found in run_ranks(work, 2):
        assert (
            f"checkpoint_1 did not reach the disk and was removed, earlier checkpoints are untouched: process {rank}"
            in message
        )
        assert ".saving" not in message and "Input/output error" in message
        assert found == ["checkpoint_0"]
    assert sorted(os.listdir(tmp_path / "checkpoints")) == ["checkpoint_0", "checkpoint_2"]


def test_checkpoint_that_the_script_moves_at_once_is_no_error(tmp_path: Path) -> None:
    def work() -> bool:
        trained = Trained(tmp_path)
        trained.step()
        where = trained.accelerator.save_state()
        if trained.accelerator.is_main_process:
            shutil.move(where, tmp_path / "mine")
        trained.accelerator.wait_for_checkpoint()
        trained.accelerator.load_state(tmp_path / "mine")
        return True

    assert run_ranks(work, 2) == [True, True]


def test_process_that_is_gone_takes_nothing_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = Trained(tmp_path, limit=1)
    trained.saved()
    trained.accelerator.wait_for_checkpoint()
    monkeypatch.setattr(Notes, "all", _without_answer)
    newest = trained.saved()
    trained.accelerator.wait_for_checkpoint()
    assert names(trained) == ["checkpoint_0", "checkpoint_1"]
    trained.step()
    trained.accelerator.load_state()
    assert_identical(weights(trained.model), newest)


def _without_answer(*unused: Any) -> None:
    raise RuntimeError("the connection was closed")


def test_error_that_nobody_asks_for_is_said_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    background = Background()
    background._errors.append(CheckpointError("the disk is gone"))
    del background
    assert capsys.readouterr().err == "accel_runtime: the disk is gone\n"


@pytest.mark.parametrize("n", [1, 2])
def test_announced_copies_go_into_memory_that_is_there(tmp_path: Path, n: int) -> None:
    def work() -> None:
        project = ProjectConfiguration(str(tmp_path), automatic_checkpoint_naming=True, async_save=True)
        accelerator = Accelerator(cpu=True, project_config=project)
        model = nn.Linear(3, 4)
        optimizer = torch.optim.Adam(model.parameters())
        accelerator.prepare(model, optimizer)
        for _ in range(2):
            optimizer.zero_grad()
            accelerator.backward(model(torch.randn(2, 3)).square().mean())
            optimizer.step()
        then = weights(model)
        reserved = dict(_buffers(accelerator))
        where = accelerator.save_state()
        with torch.no_grad():
            model.weight.zero_()
        used = _buffers(accelerator)
        assert all(used[mark] is buffer for mark, buffer in reserved.items())
        assert bool(reserved) == accelerator.is_main_process
        assert accelerator.load_state() == where
        assert_identical(weights(model), then)

    run_ranks(work, n)


def _buffers(accelerator: Any) -> dict[Any, torch.Tensor]:
    copies: Copies = accelerator.background.copies
    copies._wait()
    return copies._buffers


def test_without_announcement_no_memory_is_taken(tmp_path: Path) -> None:
    trained = Trained(tmp_path)
    trained.saved()
    assert not _buffers(trained.accelerator)


def test_copies_of_any_tensor_are_its_values() -> None:
    from accel_runtime.checkpoint.capture import Files

    plain = torch.arange(6.0).view(2, 3)
    tensors = {"plain": plain, "turned": plain.t(), "conjugated": torch.tensor([1 + 2j]).conj(), "empty": plain[:0]}
    tensors |= {"scalar": torch.tensor(3), "part": plain[:, 1], "spread": torch.ones(1).expand(4)}
    files = Files(tensors={"a": (dict(tensors), {})})
    Copies().replace_tensors(files)
    copies = files.tensors["a"][0]
    plain_then = plain.clone()
    plain.zero_()
    assert torch.equal(copies["plain"], plain_then) and torch.equal(copies["turned"], plain_then.t())
    assert all(torch.equal(copies[name], tensors[name]) for name in ("conjugated", "empty", "scalar", "spread"))


def test_the_first_unannounced_one_is_written_at_once_and_later_ones_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = Trained(tmp_path)
    copies, copied = trained.accelerator.background.copies, []
    monkeypatch.setattr(
        copies, "replace_tensors", lambda *given: (copied.append(1), Copies.replace_tensors(copies, *given))
    )
    good = trained.step()
    trained.accelerator.save_state(async_save=True)
    trained.step()
    assert len(copied) == (0 if is_local(tmp_path) else 1)
    trained.accelerator.wait_for_checkpoint()
    second = trained.step()
    trained.accelerator.save_state(async_save=True)
    trained.step()
    assert len(copied) == (1 if is_local(tmp_path) else 2)
    for number, expected in enumerate((good, second)):
        trained.accelerator.load_state(tmp_path / "checkpoints" / f"checkpoint_{number}")
        assert_identical(weights(trained.model), expected)


def test_error_of_the_first_one_is_raised_by_who_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = Trained(tmp_path)
    trained.step()
    monkeypatch.setattr("accel_runtime.checkpoint.writing.write_tensors", lambda *_: _failing(0))
    trained.accelerator.save_state(async_save=True)
    with pytest.raises(CheckpointError, match=r"Input/output error: .*\.safetensors"):
        trained.accelerator.wait_for_checkpoint()
    assert names(trained) == []


def test_all_are_done_in_their_order_and_the_first_error_is_raised() -> None:
    done: list[int] = []

    def work(number: int) -> int:
        if number == 5:
            raise OSError(errno.EIO, "five")
        done.append(number)
        return number * number

    assert all_of([partial(work, n) for n in range(5)], 3) == [0, 1, 4, 9, 16]
    assert sorted(done) == list(range(5))
    with pytest.raises(OSError, match="five"):
        all_of([partial(work, n) for n in range(9)], 2)
    assert all_of([], 4) == []
