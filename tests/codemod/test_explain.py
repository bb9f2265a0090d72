"""--explain: sentences about what was taken for what, and why."""

from __future__ import annotations

import pytest

from accel_migrate.explain import explain
from accel_migrate.facts.interpret import gather_facts
from codemod.memory import facts_of, notebook

PROGRAM = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 2)

    def forward(self, x):
        return self.layer(x)


device = torch.device("cuda")
loader = DataLoader(TensorDataset(torch.randn(99, 8), torch.randint(2, (99,))), batch_size=32)
test_loader = DataLoader(TensorDataset(torch.randn(9, 8), torch.randint(2, (9,))), batch_size=3)
model = Net().to(device)
teacher = nn.Linear(8, 2)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    print(loss.item(), len(x))
model.eval()
correct = 0
with torch.no_grad():
    for x, y in test_loader:
        correct += (model(x).argmax(1) == y).sum().item()
"""
EXPLAINED = """\
What the program works with:
  train.py:15: `device` is a device: made by torch.device
  train.py:16: `loader` is a data loader: made by torch.utils.data.DataLoader, read by the loop in line 22
  train.py:17: `test_loader` is a data loader: made by torch.utils.data.DataLoader, read by the loop in line 31
  train.py:18: `model` is a model: of the class Net, which derives from torch.nn.Module, trained by `optimizer`
  train.py:19: `teacher` is a model: made by torch.nn.Linear, not trained: no optimizer has its parameters
  train.py:20: `criterion` is a loss function: made by torch.nn.CrossEntropyLoss, the mean over the rows of the batch
  train.py:21: `optimizer` is an optimizer: made by torch.optim.SGD, for the parameters of `model`

Its loops over data:
  train.py:22: the loop over `loader` trains: a backward pass runs in it, in line 25; each process gets its part of every batch
  train.py:31: the loop over `test_loader` evaluates: no backward pass runs in it; outputs and targets are made whole after the forward pass

Its losses:
  train.py:25: `loss` is a mean over the rows of the batch; gradients are averaged over processes, weighted by their numbers of rows

Values of one process, each of which is a mean over the rows of the batch; the global one is the mean of all processes, weighted by their numbers of rows:
  train.py:27: `loss` becomes a number of Python

Values of one process, each of which counts rows of the batch; the global one is the number of rows on all processes:
  train.py:27: `len(x)` is shown"""


def test_every_object_loop_loss_and_figure_in_a_sentence() -> None:
    assert explain(facts_of(PROGRAM)) == EXPLAINED


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        ('nn.CrossEntropyLoss(reduction="sum")', "made by torch.nn.CrossEntropyLoss, the sum over the rows of the batch"),
        ('nn.CrossEntropyLoss(reduction="none")', "made by torch.nn.CrossEntropyLoss, one loss for each row of the batch"),
        ("nn.CrossEntropyLoss(ignore_index=0)", "the mean over what counts: class weights or ignored targets change the denominator"),
    ],
)
def test_the_reduction_of_a_loss_function(loss: str, said: str) -> None:
    assert said in explain(facts_of(PROGRAM.replace("nn.CrossEntropyLoss()", loss)))


def test_what_is_missing_is_said() -> None:
    text = explain(facts_of("import torch\nx = 1\n"))
    assert "no model was recognised" in text
    assert "no optimizer was recognised" in text
    assert "no data loader was recognised" in text
    assert "no training step was recognised" in text


def test_other_files_and_cells_are_named() -> None:
    modules = {"engine": "def step(loss):\n    loss.backward()\n"}
    text = explain(facts_of(PROGRAM.replace("    loss.backward()\n", "    step(loss)\n").replace("import torch\n", "import torch\nfrom engine import step\n", 1), modules))
    assert "trains: a backward pass runs in it, in a function that it calls" in text
    assert "engine.py:2: `loss` is a mean over the rows of the batch" in text
    text = explain(gather_facts(notebook(PROGRAM)))
    assert "train.ipynb:cell 1:16: `loader` is a data loader: made by torch.utils.data.DataLoader, read by the loop in train.ipynb:cell 1:22" in text
