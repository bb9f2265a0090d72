"""Functions of the program's files which this program never calls are no reason to leave it alone."""

from __future__ import annotations

import pytest

from accel_migrate.migrate import migrate
from accel_migrate.result import Options
from codemod.marked import STEP, script
from codemod.memory import after, migrated, program

DATA = """\
import torch
from torch.utils.data import DataLoader, TensorDataset


def train_loader():
    return DataLoader(TensorDataset(torch.randn(64, 8), torch.randint(2, (64,))), batch_size=8)


def loader_of_another_script():
    loader = DataLoader(TensorDataset(torch.randn(9, 8)), batch_size=3)
    return loader
"""
MAIN = """\
import torch
from data import train_loader
from torch import nn


def main():
    loader = train_loader()
    model = nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


main()
"""
OTHER_TRAINING = """\
def distil(teacher, student, batches, optimizer):
    for x, y in DataLoader(batches):
        loss = F.cross_entropy(student(x), teacher(x).argmax(1))
        loss.backward()
        optimizer.step()


def main():
    loader = DataLoader(TensorDataset(torch.randn(64, 8), torch.randint(2, (64,))), batch_size=8)
    model = nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()


main()
"""


def test_a_loader_in_a_function_that_nobody_calls_stays() -> None:
    result = migrate(program(MAIN, {"data": DATA}), Options())
    assert result.status == "changed"
    assert not [f for f in result.findings if f.rule == "out-of-reach"]
    data = next((c.after for c in result.changes if c.source.module == "data"), DATA)
    assert data.count("prepare") <= 1


def test_training_that_nobody_calls_is_told() -> None:
    result = migrated(script("").partition("dataset = ")[0] + OTHER_TRAINING)
    assert result.status == "changed"
    assert {f.rule for f in result.findings} >= {"uncalled-training"}


@pytest.mark.parametrize("use", ["registry = {'a': helper}", "register(helper)", "run = helper"])
def test_a_function_that_is_mentioned_counts_as_called(use: str) -> None:
    code = f"from somewhere import register\n\n\ndef helper(m, o):\n    for x, y in DataLoader(dataset):\n        m(x).sum().backward()\n        o.step()\n\n\n{use}\n"
    result = migrated(script(code + STEP))
    assert not [f for f in result.findings if f.rule == "uncalled-training"]


MODEL = """\
class Net(nn.Sequential):
    def keep(self, path):
        torch.save(self.state_dict(), path)


def main():
    loader = DataLoader(TensorDataset(torch.randn(64, 8), torch.randint(2, (64,))), batch_size=8)
    net = Net(nn.Linear(8, 2))
    adam = torch.optim.Adam(net.parameters())
    for x, y in loader:
        F.cross_entropy(net(x), y).backward()
        adam.step()
    net.keep("net.pt")


main()
"""


def test_a_model_that_saves_itself_saves_on_the_main_process() -> None:
    head = script("").partition("dataset = ")[0]
    assert "if PartialState().is_main_process:\n            torch.save(self.state_dict(), path)" in after(migrated(head + MODEL))


COMMANDS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Settings:
    use_gpu = True


opt = Settings()


def sample(count):
    device = torch.device("cuda") if opt.use_gpu else torch.device("cpu")
    net = nn.Linear(8, 2).to(device)
    print(net(torch.randn(count, 8).to(device)))


def train(epochs):
    device = torch.device("cuda") if opt.use_gpu else torch.device("cpu")
    loader = DataLoader(TensorDataset(torch.randn(64, 8), torch.randint(2, (64,))), batch_size=8)
    net = nn.Linear(8, 2).to(device)
    adam = torch.optim.Adam(net.parameters())
    for epoch in range(epochs):
        for x, y in loader:
            loss = nn.functional.cross_entropy(net(x.to(device)), y.to(device))
            loss.backward()
            adam.step()


if __name__ == "__main__":
    import fire

    fire.Fire()
"""


def test_another_command_of_the_script_stays_as_it_is() -> None:
    text = after(migrated(COMMANDS))
    assert text.partition("def train")[0].partition("def sample")[2] == COMMANDS.partition("def train")[0].partition("def sample")[2]
    assert "accelerator.backward(loss)" in text and "PartialState" not in text
