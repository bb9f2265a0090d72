"""What the tool says of files that it does not migrate."""

from __future__ import annotations

import pytest

from accel_migrate.command import cli
from codemod.conftest import Files
from codemod.memory import migrated

TRAINER = """\
import torch


class Trainer:
    def __init__(self, model, loader):
        self.model, self.loader = model, loader
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def fit(self):
        for x, y in self.loader:
            loss = ((self.model(x) - y) ** 2).mean()
            loss.backward()
            self.optimizer.step()
"""
FUNCTION = """\
import torch


def train(model, loader, optimizer):
    for x, y in loader:
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize("text", ["lr: 0.1\n", "name: foo bar\n"])
def test_what_is_no_python_file_is_told_so(files: Files, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    files({"config.yaml": text})
    assert cli.main(["config.yaml"]) in {2, 3}
    captured = capsys.readouterr()
    assert "not a Python file: its name ends in .yaml" in captured.out + captured.err


@pytest.mark.parametrize(("text", "batches"), [(TRAINER, "self.loader"), (FUNCTION, "loader")])
def test_batches_that_nothing_passes_are_asked_for(files: Files, text: str, batches: str, capsys: pytest.CaptureFixture[str]) -> None:
    files({"trainer.py": text})
    assert cli.main(["trainer.py"]) == 3
    assert f"it trains on `{batches}`, which nothing here passes" in capsys.readouterr().out


def test_an_optimizer_class_that_nothing_makes_trains_nothing() -> None:
    own = "class Own(torch.optim.Optimizer):\n    def __init__(self, params):\n        super().__init__(params, {})\n"
    text = f"import torch, sys\n{own}net = __import__(sys.argv[1]).make()\nfor x in torch.utils.data.DataLoader(torch.randn(8, 2)):\n    net(x).backward()\n    net.optim.step()\n"
    reason = migrated(text).reason
    assert reason.startswith("no optimizer from torch.optim found")
