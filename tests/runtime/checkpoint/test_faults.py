"""Whatever happens to a checkpoint, what was saved before stays, and the error names the file."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from accel_runtime import Accelerator, ProjectConfiguration
from accel_runtime.checkpoint import manifest, staging, tensor_files, writing
from accel_runtime.checkpoint.errors import CheckpointError
from accel_runtime.checkpoint.save import Saving

from ..ranks import run_ranks
from ..training import assert_identical, weights


class Trained:
    """A model and an optimizer that has stepped, under an Accelerator which numbers its states."""

    def __init__(self, folder: Path, limit: int | None = None, width: int = 4) -> None:
        project = ProjectConfiguration(str(folder), automatic_checkpoint_naming=True, total_limit=limit)
        self.accelerator = Accelerator(cpu=True, project_config=project)
        self.folder = folder / "checkpoints"
        self.model = nn.Linear(3, width)
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.accelerator.prepare(self.model, self.optimizer)

    def step(self) -> dict[str, torch.Tensor]:
        self.optimizer.zero_grad()
        self.accelerator.backward(self.model(torch.randn(2, 3)).square().mean())
        self.optimizer.step()
        return weights(self.model)

    def saved(self) -> dict[str, torch.Tensor]:
        after = self.step()
        self.accelerator.save_state()
        return after


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


DAMAGE: dict[str, Any] = {
    "truncated": lambda folder: os.truncate(
        folder / "model.safetensors", (folder / "model.safetensors").stat().st_size - 4
    ),
    "flipped bit in a tensor": lambda folder: flip(folder / "optimizer.safetensors", -3),
    "flipped bit in a header": lambda folder: flip(folder / "model.safetensors", 30),
    "flipped bit in the state": lambda folder: flip(folder / "state.json", 40),
    "missing file": lambda folder: os.unlink(folder / "process_0.json"),
    "empty manifest": lambda folder: (folder / "manifest.json").write_text(""),
    "no manifest": lambda folder: os.unlink(folder / "manifest.json"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_checkpoint_is_named_and_the_one_before_it_loads(tmp_path: Path, damage: str) -> None:
    trained = Trained(tmp_path)
    good = trained.saved()
    newest = trained.saved()
    DAMAGE[damage](trained.folder / "checkpoint_1")
    with pytest.raises(CheckpointError, match="checkpoint_1"):
        trained.accelerator.load_state(trained.folder / "checkpoint_1")
    assert_identical(weights(trained.model), newest)
    with pytest.warns(UserWarning, match="passing over") if damage != "no manifest" else contextlib.nullcontext():
        assert trained.accelerator.load_state() == str(trained.folder / "checkpoint_0")
    assert_identical(weights(trained.model), good)


def _fail_after(monkeypatch: pytest.MonkeyPatch, calls: int, number: int) -> None:
    """The file system fails with errno `number` at the write after `calls` ones."""
    left = [calls]
    plain = tensor_files._write_all

    def write(file: Any, data: memoryview) -> None:
        if left[0] == 0:
            raise OSError(number, os.strerror(number), file.name)
        left[0] -= 1
        plain(file, data)

    monkeypatch.setattr(tensor_files, "_write_all", write)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("calls", [0, 1, 4])
def test_failing_write_leaves_the_earlier_checkpoint_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, calls: int
) -> None:
    trained = Trained(tmp_path, limit=1)
    good = trained.saved()
    _fail_after(monkeypatch, calls, number)
    with pytest.raises(CheckpointError, match=os.strerror(number) + ".*safetensors"):
        trained.saved()
    assert os.listdir(trained.folder) == ["checkpoint_0"]
    trained.accelerator.load_state()
    assert_identical(weights(trained.model), good)


def test_failing_write_on_one_process_is_an_error_on_all(tmp_path: Path) -> None:
    def work() -> str:
        trained = Trained(tmp_path)
        trained.saved()
        if trained.accelerator.process_index == 1:
            _break_json()
        with pytest.raises(CheckpointError) as caught:
            trained.saved()
        return str(caught.value)

    messages = run_ranks(work, 2)
    assert messages[0] == messages[1]
    assert "process 1: No space left on device" in messages[0]
    assert os.listdir(tmp_path / "checkpoints") == ["checkpoint_0"]


def _break_json() -> None:
    def closed(path: Path, unsynced: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    writing._closed = closed  # type: ignore[assignment]


def test_checkpoint_of_a_newer_version(tmp_path: Path) -> None:
    trained = Trained(tmp_path)
    trained.saved()
    path = trained.folder / "checkpoint_0" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": manifest.FORMAT + 1}))
    with pytest.raises(CheckpointError, match="update accel-migrate"):
        trained.accelerator.load_state(path.parent)


def test_checkpoint_of_another_model_changes_nothing(tmp_path: Path) -> None:
    Trained(tmp_path).saved()
    other = Trained(tmp_path, width=5)
    before = weights(other.model)
    with pytest.raises(
        CheckpointError, match=r"of another model: weight is \[4, 3\] in the checkpoint and \[5, 3\] here"
    ):
        other.accelerator.load_state(other.folder / "checkpoint_0")
    assert_identical(weights(other.model), before)


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "inside/../../secret"])
def test_no_path_leaves_the_folder(tmp_path: Path, name: str) -> None:
    trained = Trained(tmp_path)
    trained.saved()
    (trained.folder / "secret").write_text("x")
    path = trained.folder / "checkpoint_0" / "manifest.json"
    content = json.loads(path.read_text())
    content["files"][name] = {"bytes": 1, "checksum": 0, "of_header": False}
    path.write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match="outside the checkpoint"):
        trained.accelerator.load_state(path.parent)


class Payload:
    """Unpickled, it leaves a file behind."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


class Holder:
    """A registered object whose state is no plain value."""

    def __init__(self, state: Any = None) -> None:
        self.state = state

    def state_dict(self) -> Any:
        return {"payload": self.state}

    def load_state_dict(self, state: Any) -> None:
        self.state = state


def test_nothing_is_unpickled_unless_asked(tmp_path: Path) -> None:
    accelerator = Accelerator(cpu=True)
    mark = tmp_path / "ran"
    accelerator.register_for_checkpointing(Holder(Payload(str(mark))))
    folder = accelerator.save_state(tmp_path / "state")
    with pytest.raises(CheckpointError, match=r"custom_checkpoint_0.pkl.*weights_only"):
        accelerator.load_state(folder)
    assert not mark.exists()
    accelerator.load_state(folder, load_kwargs={"weights_only": False})
    assert mark.exists()


def test_two_savers_at_once_take_two_numbers(tmp_path: Path) -> None:
    one, two = Trained(tmp_path), Trained(tmp_path)
    first, second = Saving(one.accelerator, None, False), Saving(two.accelerator, None, False)
    assert first.finish(first.capture(True)).endswith("checkpoint_0")
    assert second.finish(second.capture(True)).endswith("checkpoint_1")
    assert sorted(os.listdir(one.folder)) == ["checkpoint_0", "checkpoint_1"]


def test_what_a_killed_saver_has_left_goes_and_what_is_being_written_stays(tmp_path: Path) -> None:
    code = "import os, sys; from pathlib import Path; from accel_runtime.checkpoint.staging import Staging; Staging(Path(sys.argv[1])); os._exit(1)"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "state")], env=env, check=False)
    assert len(list(tmp_path.iterdir())) == 1
    living = staging.Staging(tmp_path / "state")
    other = staging.Staging(tmp_path / "state")
    assert {path.name for path in tmp_path.iterdir()} == {living.path.name, other.path.name}


@pytest.mark.parametrize("name", ["checkpoint_0", "state"])
def test_a_kill_in_the_removal_of_an_old_checkpoint_leaves_what_goes_at_the_next_save(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = Trained(tmp_path)
    trained.accelerator.project_configuration.automatic_checkpoint_naming = False
    target = tmp_path / name
    trained.accelerator.save_state(target)
    monkeypatch.setattr(shutil, "rmtree", lambda *args, **options: None)
    if name == "state":
        trained.accelerator.save_state(target)
    else:
        staging.remove(target)
    monkeypatch.undo()
    left = {path.name for path in tmp_path.iterdir()} - {"state"}
    assert len(left) == 1 and left.pop().startswith(f".{name}.")
    staging.Staging(tmp_path / "other").discard()
    assert {path.name for path in tmp_path.iterdir()} <= {"state"}


def test_replacing_a_checkpoint_keeps_what_the_script_put_there(tmp_path: Path) -> None:
    trained = Trained(tmp_path)
    trained.accelerator.project_configuration.automatic_checkpoint_naming = False
    target = tmp_path / "state"
    trained.accelerator.save_state(target)
    (target / "notes.txt").write_text("mine")
    newest = trained.step()
    trained.accelerator.save_state(target)
    assert (target / "notes.txt").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    trained.step()
    trained.accelerator.load_state(target)
    assert_identical(weights(trained.model), newest)


def test_a_disk_that_fails_at_any_fsync_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = Trained(tmp_path)
    good, fsync, told = trained.saved(), os.fsync, []
    trained.accelerator.wait_for_checkpoint()

    def failing(at: int) -> Any:
        left = iter(range(at + 1))

        def call(file: Any) -> None:
            if next(left, None) == at:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            fsync(file)

        return call

    for at in range(8):
        after = trained.step()
        monkeypatch.setattr(os, "fsync", failing(at))
        try:
            trained.accelerator.save_state()
            trained.accelerator.wait_for_checkpoint()
            good = after
        except CheckpointError:
            told.append(at)
        monkeypatch.setattr(os, "fsync", fsync)
        trained.accelerator.load_state()
        assert_identical(weights(trained.model), good)
    assert len(told) >= 6
    assert all(name.startswith("checkpoint_") for name in os.listdir(trained.folder))


def test_a_lock_that_cannot_be_made_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = Trained(tmp_path)
    trained.saved()
    monkeypatch.setattr(staging, "_LOCK", "none/.lock")
    with pytest.raises(CheckpointError, match="No such file or directory"):
        trained.accelerator.save_state()
    assert os.listdir(trained.folder) == ["checkpoint_0"]


def test_replacing_works_without_an_exchange_of_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "_exchange", lambda one, other: False)
    test_replacing_a_checkpoint_keeps_what_the_script_put_there(tmp_path)


def test_a_kill_between_two_renames_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = Trained(tmp_path)
    trained.accelerator.project_configuration.automatic_checkpoint_naming = False
    target = tmp_path / "state"
    trained.accelerator.save_state(target)
    newest = trained.step()
    monkeypatch.setattr(staging, "_exchange", lambda one, other: False)
    plain = os.rename

    def rename(source: Any, destination: Any) -> None:
        if Path(destination) == target and ".saving-" in str(source) and not target.exists():
            raise KeyboardInterrupt
        plain(source, destination)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(KeyboardInterrupt):
        trained.accelerator.save_state(target)
    monkeypatch.setattr(os, "rename", plain)
    assert not target.exists()
    trained.step()
    trained.accelerator.load_state(target)
    assert_identical(weights(trained.model), newest)


def test_read_only_folder(tmp_path: Path) -> None:
    trained = Trained(tmp_path)
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(CheckpointError, match=r"earlier ones are untouched.*file"):
        trained.accelerator.project_configuration.automatic_checkpoint_naming = False
        trained.accelerator.save_state(blocked / "state")
    with pytest.raises(CheckpointError, match="is a file"):
        trained.accelerator.save_state(blocked)
    with pytest.raises(CheckpointError, match="is a file, and load_state reads the folder"):
        trained.accelerator.load_state(blocked)


def test_the_oldest_go_only_when_the_new_one_is_there(tmp_path: Path) -> None:
    trained = Trained(tmp_path, limit=2)
    for _ in range(4):
        trained.saved()
    trained.accelerator.wait_for_checkpoint()
    assert sorted(os.listdir(trained.folder)) == ["checkpoint_2", "checkpoint_3"]


def test_a_new_run_goes_on_numbering(tmp_path: Path) -> None:
    for _ in range(6):
        trained = Trained(tmp_path, limit=2)
        newest = trained.saved()
        trained.accelerator.wait_for_checkpoint()
    assert sorted(os.listdir(trained.folder)) == ["checkpoint_4", "checkpoint_5"]
    trained.step()
    trained.accelerator.load_state()
    assert_identical(weights(trained.model), newest)


def test_auto_begins_afresh_where_there_is_nothing(tmp_path: Path) -> None:
    trained = Trained(tmp_path)
    assert trained.accelerator.load_state("auto") is None
    with pytest.raises(CheckpointError, match="no complete checkpoint"):
        trained.accelerator.load_state()
    trained.saved()
    assert trained.accelerator.load_state("auto") == str(trained.folder / "checkpoint_0")


def test_what_all_processes_say_is_said_once() -> None:
    assert writing.told([None, None], "not saved") == ""
    assert writing.told(["full", "full"], "") == "full"
    assert writing.told(["full", "full"], "not saved") == "not saved: full"
    assert writing.told([None, "full", "full", "gone"], "") == "processes 1, 2: full; process 3: gone"


def test_passing_over_a_damaged_state_is_told_once_at_the_line_of_the_script(tmp_path: Path) -> None:
    def work() -> list[tuple[str, str]]:
        trained = Trained(tmp_path)
        trained.saved()
        trained.saved()
        if trained.accelerator.is_main_process:
            (trained.folder / "checkpoint_1" / "state.json").write_text("{")
        trained.accelerator.wait_for_everyone()
        with warnings.catch_warnings(record=True) as caught:
            trained.accelerator.load_state("auto")
        return [(str(each.message), each.filename) for each in caught]

    first, second = run_ranks(work, 2)
    [(message, place)] = first
    assert (message.count("is damaged"), place, second) == (1, __file__, [])
    assert ": :" not in message and "process" not in message
