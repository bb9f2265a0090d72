"""Objects that a model makes of rows of a batch are apart from those that it makes of other tensors."""

from __future__ import annotations

from codemod.memory import after, migrated

PYRAMID = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Levels:
    def __init__(self, rows):
        self.held = []
        self.held.append(rows)
        self.first = rows

    def __call__(self, weight):
        return self.held[0] @ weight + self.first @ weight


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(8, 2))

    def forward(self, rows):
        return Levels(rows)(self.weight)


dataset = TensorDataset(torch.randn(96, 8), torch.randint(2, (96,)))
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def evaluate(model):
    found = []
    for index in range(len(dataset)):
        x, y = dataset[index]
        found.append((model(x[None])[0] - y).pow(2).sum().sqrt().item())
    return sum(found) / len(found)


for x, y in DataLoader(dataset, batch_size=32):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    print(loss.item(), evaluate(model))
"""


def test_what_every_process_evaluates_alike_is_not_added_up() -> None:
    result = migrated(PYRAMID)
    text = after(result)
    assert "found.append((model(x[None])[0] - y).pow(2).sum().sqrt().item())" in text
    assert "accelerator.print(accelerator.global_mean(loss).item(), evaluate(model))" in text
    assert not result.findings
