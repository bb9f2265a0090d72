"""The batch size of a loader in the shape of a batch: each process has a part of it."""

from __future__ import annotations

import pytest

from codemod.memory import after, migrated

PROGRAM = """\
import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=16)
args = parser.parse_args()
BATCH = 16
loader = DataLoader(TensorDataset(torch.randn(96, 8), torch.randint(2, (96,))), batch_size=GIVEN)


class Net(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.n = n
        self.last = nn.Linear(8, 2)

    def forward(self, x):
        return self.last(INSIDE)


net = Net(GIVEN)
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    LINE
    out = net(x)
    loss = F.cross_entropy(out, y)
    sgd.zero_grad()
    loss.backward()
    sgd.step()
"""
FOLLOWED = {
    "a constant": ("BATCH", "x = x.view(BATCH, 8)", "x", "x.view(-1, 8)"),
    "an argument": ("args.batch_size", "x = x.reshape((args.batch_size, 8))", "x", "x.reshape((-1, 8))"),
    "beside an inferred dimension": ("BATCH", "x = x.view(BATCH, -1)", "x", "x.view(x.size(0), -1)"),
    "a multiple": ("BATCH", "pairs = x.view(BATCH * 2, 4)", "x", "x.view(-1, 4)"),
    "handed to a model": ("BATCH", "pass", "x.view(self.n, 8)", "x.view(-1, 8)"),
}
REPORTED = {
    "ones beside rows": "loss = (x.sum(1) * torch.ones(BATCH)).mean()",
    "a variable beside rows": "ones = torch.ones(BATCH)\n    d = F.mse_loss(x.sum(1), ones)",
    "an index": "first = x[range(BATCH), y]",
    "a loop": "for i in range(BATCH):\n        print(x[i])",
    "made of other rows": "z = x[:, :4].relu()\n    z = z.view(BATCH, -1)",
}
LEFT = {
    "another number": "w = torch.ones(8) * x",
    "a batch of its own": "own = torch.ones(BATCH)\n    print(own.sum())",
    "a figure": "print(loss_sum / BATCH if False else 0)",
}


def result(given: str, line: str, inside: str = "x"):
    return migrated(PROGRAM.replace("GIVEN", given).replace("LINE", line).replace("INSIDE", inside))


@pytest.mark.parametrize(("given", "line", "inside", "expected"), FOLLOWED.values(), ids=FOLLOWED)
def test_shapes_follow_the_rows(given: str, line: str, inside: str, expected: str) -> None:
    found = result(given, line, inside)
    assert expected in after(found) and "constant-batch-size" not in {f.rule for f in found.findings}


@pytest.mark.parametrize("line", REPORTED.values(), ids=REPORTED)
def test_other_uses_are_reported(line: str) -> None:
    assert "constant-batch-size" in {f.rule for f in result("BATCH", line).findings}


@pytest.mark.parametrize("line", LEFT.values(), ids=LEFT)
def test_what_meets_no_rows_is_left(line: str) -> None:
    assert "constant-batch-size" not in {f.rule for f in result("BATCH", line).findings}
