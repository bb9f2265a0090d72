"""Whole objects that a script saved can be compared where its classes do not exist."""

from __future__ import annotations

from pathlib import Path

from accel_migrate.verify.hooks.unpickled import load_saved
from accel_migrate.verify.job import Job
from accel_migrate.verify.warm import ForkingRunner


def test_a_saved_model_of_a_script(runner: ForkingRunner, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.width = 3\n"
        "        self.rnn = torch.nn.LSTM(2, self.width)\n"
        "torch.save({'net': Net(), 'epochs': [1, 2]}, 'net.pt')\n"
    )
    run = runner.run(Job(tmp_path, "script.py"))
    leaves = load_saved(run.folder / "net.pt")
    assert leaves["net:type"] == "Net"
    assert (leaves["net.width"], leaves["epochs.1"]) == (3, 2)
    assert leaves["net._modules.rnn._parameters.weight_ih_l0"].shape == (12, 2)
