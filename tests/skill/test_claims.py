"""What the skill's pages say beside their blocks of code."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from accel_migrate.verify.job import copy_to_scratch
from skill.running import results, same

START = """
import torch
from torch.utils.data import DataLoader, TensorDataset
from accel_runtime import Accelerator, set_seed

set_seed(0)
accelerator = Accelerator(split_batches=True)
loader = accelerator.prepare(DataLoader(TensorDataset(torch.arange(12.0)), batch_size=4, shuffle=True))
"""


def test_epochs_are_shuffled_anew_without_set_epoch() -> None:
    program = START + "result = [accelerator.gather_for_metrics(x).tolist() for _ in range(2) for (x,) in loader]\n"
    (expected,) = results(program, 1)
    assert expected[:3] != expected[3:]
    assert all(same(got, expected) for got in results(program, 2))


def test_prepare_does_not_wrap_and_saving_needs_no_barrier() -> None:
    program = START + (
        "net = torch.nn.Linear(1, 1)\nnet.extra = 7\nprepared = accelerator.prepare(net)\n"
        "accelerator.save(accelerator.get_state_dict(prepared), 'net.pt')\nresult = [float(prepared is net), prepared.extra]\n"
    )
    assert [same(got, [1, 7]) for got in results(program, 2)] == [True, True]


def test_accelerate_ignores_the_argument_split_batches() -> None:
    pytest.importorskip("accelerate")
    program = "from accelerate import Accelerator\n\nresult = float(Accelerator(cpu=True, split_batches=True).split_batches)\n"
    assert results(program, 1) == [0.0]


def test_a_socket_beside_the_script_does_not_keep_it_from_being_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text("")
    monkeypatch.chdir(project)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("listener")
        copy_to_scratch(project, tmp_path / "copy")
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["train.py"]
