"""The accelerator reaches functions through subclasses and functions that hand on their arguments; where it cannot, the report says why."""

from __future__ import annotations

import pytest

from accel_migrate.migrate import migrate
from accel_migrate.result import Options
from codemod.memory import migrated, program

BASE = """\
import torch
from torch import nn


class Base:
    def __init__(self, model, optimizer, callbacks=()):
        self.model, self.optimizer, self.callbacks = model, optimizer, callbacks

    def loss(self, x, y):
        raise NotImplementedError

    def fit(self, loader, epochs=1):
        for _ in range(epochs):
            for x, y in loader:
                self.optimizer.zero_grad()
                self.loss(x, y).backward()
                self.optimizer.step()
"""
MAIN = """\
import torch
from base import Base
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer(Base):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)

    def loss(self, x, y):
        return nn.functional.cross_entropy(self.model(x), y)


def main():
    loader = DataLoader(TensorDataset(torch.randn(90, 4), torch.randint(2, (90,))), batch_size=10)
    model = nn.Linear(4, 2)
    trainer = Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1), [])
    trainer.fit(loader)


if __name__ == "__main__":
    main()
"""
PLAIN = "def __init__(self, model, optimizer, callbacks):\n        super().__init__(model, optimizer, callbacks)"
HANDED_ON = "def __init__(self, *args, **kwargs):\n        super().__init__(*args, **kwargs)"


def texts(main: str) -> dict[str, str]:
    """What becomes of the two files."""
    result = migrate(program(main, {"base": BASE}), Options())
    assert result.status == "changed", result.reason
    return {change.source.module: change.after for change in result.changes}


def test_a_class_whose_base_takes_it_is_given_it_by_name() -> None:
    files = texts(MAIN)
    assert "def __init__(self, model, optimizer, callbacks=(), accelerator=None):" in files["base"]
    assert "self.accelerator.backward(self.loss(x, y))" in files["base"]
    assert "lr=0.1), [], accelerator=accelerator)" in files["train"].replace("accelerator.prepare(torch.optim.SGD(model.parameters(), lr=0.1))", "lr=0.1)")
    assert HANDED_ON in files["train"]


def test_a_subclass_that_uses_it_too_does_not_keep_it_from_its_base() -> None:
    counted = MAIN.replace("return nn.functional", "print(x.mean().item())\n        return nn.functional")
    files = texts(counted)
    assert HANDED_ON in files["train"] and "accelerator=None):" in files["base"] and "global_mean(x.mean())" in files["train"]


def test_a_subclass_that_names_its_arguments_passes_it_on() -> None:
    files = texts(MAIN.replace(HANDED_ON, PLAIN))
    assert "def __init__(self, model, optimizer, callbacks, accelerator):" in files["train"]
    assert "super().__init__(model, optimizer, callbacks, accelerator=accelerator)" in files["train"]


TRAIN = """\
def train(model, loader, epochs=1):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def main():
    model = nn.Linear(4, 2)
    device = torch.device("cuda")
    loader = DataLoader(TensorDataset(torch.randn(90, 4), torch.randint(2, (90,))), batch_size=10)
    {call}


main()
"""
IMPORTS = "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader, TensorDataset\n\n\n"


@pytest.mark.parametrize(
    ("call", "header"),
    [("train(model, loader)", "model, loader, accelerator, epochs=1"), ("train(model, loader, 3)", "model, loader, epochs=1, accelerator=None")],
)
def test_the_parameter_stands_behind_those_given_by_position(call: str, header: str) -> None:
    result = migrated(IMPORTS + TRAIN.format(call=call))
    assert f"def train({header}):" in result.changes[0].after
    assert f"{call[:-1]}, accelerator=accelerator)" in result.changes[0].after


def test_the_message_names_the_use_that_is_no_plain_call() -> None:
    helper = "def step(optimizer, loss):\n    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"
    main = """\
import torch
from base import step
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(90, 4), torch.randint(2, (90,))), batch_size=10)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    step(optimizer, nn.functional.cross_entropy(model(x), y))
sorted([], key=step)
"""
    result = migrate(program(main, {"base": helper}), Options())
    assert result.status == "refused"
    assert result.reason == "the accelerator cannot be passed to base.py:3: `step` is not only called, but handed on as a value (train.py:11)"
