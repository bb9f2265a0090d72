"""Who calls `save_state`, and when: all processes, the main one only, while the training goes on."""

from __future__ import annotations

import errno
import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed import HashStore

from accel_runtime.checkpoint import notes, writing
from accel_runtime.checkpoint.errors import CheckpointError
from accel_runtime.checkpoint.notes import Gone, Notes
from accel_runtime.world import World

from ..ranks import run_ranks
from ..training import assert_identical, weights
from .test_faults import Trained

TWO = World(size=2)


def under_an_if(accelerator: Any) -> None:
    if accelerator.is_main_process:
        accelerator.save_state()


def behind_a_return(accelerator: Any) -> None:
    if not accelerator.is_main_process:
        return
    accelerator.save_state()


def by_the_rank(accelerator: Any) -> None:
    rank = accelerator.process_index
    if rank == 0 and accelerator.num_processes:
        accelerator.save_state(async_save=True)


def decorated(accelerator: Any) -> None:
    @accelerator.on_main_process
    def save() -> None:
        accelerator.save_state()

    save()


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("save", [under_an_if, behind_a_return, by_the_rank, decorated])
def test_main_process_only_works_and_says_so(tmp_path: Path, save: Any, n: int) -> None:
    def work() -> list[str]:
        trained = Trained(tmp_path)
        trained.step()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            save(trained.accelerator)
        trained.accelerator.wait_for_checkpoint()
        trained.accelerator.wait_for_everyone()
        before = weights(trained.model)
        trained.step()
        trained.accelerator.load_state()
        assert_identical(weights(trained.model), before)
        return [str(warning.message) for warning in caught]

    main, *others = run_ranks(work, n)
    assert len(main) == 1 and "test_callers.py:" in main[0] and "main process only" in main[0]
    assert others == [[]] * (n - 1)


def test_call_which_the_others_do_not_make_ends_in_an_error_that_names_it(tmp_path: Path) -> None:
    def work() -> str:
        trained = Trained(tmp_path)
        chosen = trained.accelerator.process_index == 1
        if not chosen:
            return ""
        with pytest.raises(CheckpointError) as caught:
            trained.accelerator.save_state()
        return str(caught.value)

    message = run_ranks(work, 2, env={"ACCEL_CHECKPOINT_PATIENCE": "1"})[1]
    assert "test_callers.py:" in message and "was called by process 1" in message and "not by process 0" in message


@pytest.mark.parametrize("n", [1, 2])
def test_saved_in_the_background_is_what_was_then(tmp_path: Path, n: int) -> None:
    def work() -> list[Any]:
        trained = Trained(tmp_path)
        then = trained.step()
        where = trained.accelerator.save_state(async_save=True)
        later = trained.step()
        trained.accelerator.wait_for_checkpoint()
        assert trained.accelerator.load_state() == where
        assert not torch.equal(later["weight"], then["weight"])
        assert_identical(weights(trained.model), then)
        return sorted(os.listdir(where))

    assert run_ranks(work, n)[0][0] == "manifest.json"


def test_failure_in_the_background_is_told_later_on_all_and_leaves_nothing(tmp_path: Path) -> None:
    def fail(path: Path, unsynced: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    def work() -> str:
        trained = Trained(tmp_path)
        trained.saved()
        if trained.accelerator.process_index == 1:
            writing._closed = fail  # type: ignore[assignment]
        trained.accelerator.save_state(async_save=True)
        with pytest.raises(CheckpointError) as caught:
            trained.accelerator.wait_for_checkpoint()
        return str(caught.value)

    for message in run_ranks(work, 2):
        assert "process 1: No space left on device" in message
    assert os.listdir(tmp_path / "checkpoints") == ["checkpoint_0"]


def test_killed_process_ends_the_wait_in_the_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "_PATIENCE", 0.2)
    with pytest.raises(CheckpointError, match="process 1 has not written its part"):
        Notes(TWO, "a", HashStore()).all({}, tmp_path)


def test_folder_that_is_gone_ends_the_wait_in_the_background(tmp_path: Path) -> None:
    with pytest.raises(Gone):
        Notes(TWO, "a", HashStore()).all({}, tmp_path / "gone")


def test_notes_come_in_the_order_of_the_processes(tmp_path: Path) -> None:
    store = HashStore()
    Notes(replace(TWO, rank=1), "a", store).leave({"error": "of 1"})
    assert Notes(TWO, "a", store).all({"done": None}, tmp_path) == [{"done": None}, {"error": "of 1"}]
