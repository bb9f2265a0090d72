"""A figure through which gradients flow is never replaced by a detached one, whatever the gradients come from."""

from __future__ import annotations

import pytest

from codemod.memory import after, migrated

PROGRAM = """\
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(99, 8), torch.randint(2, (99,))), batch_size=16)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.last = nn.Linear(8, 2)
        self.register_buffer("shift", torch.zeros(8))
        MADE

    def forward(self, x):
        h = RUN
        h = h - h.mean(0)
        return self.last(h)


net = Net()
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    loss = F.cross_entropy(net(x), y)
    sgd.zero_grad()
    loss.backward()
    sgd.step()
"""
TRAINED = {
    "a parameter": ("self.weight = nn.Parameter(torch.eye(8))", "x @ self.weight"),
    "a parameter, transposed": ("self.weight = nn.Parameter(torch.eye(8))", "F.linear(x, self.weight.t())"),
    "a registered parameter": ("self.register_parameter('scale', nn.Parameter(torch.ones(8)))", "x * self.scale"),
    "a list of parameters": ("self.scales = nn.ParameterList([nn.Parameter(torch.ones(8))])", "x * self.scales[0]"),
    "a tensor that asks for gradients": ("self.scale = torch.ones(8, requires_grad=True)", "x.mul(self.scale)"),
    "a tensor that is asked for gradients": ("self.scale = torch.ones(8).requires_grad_()", "x.mul(self.scale)"),
    "the weight of a layer": ("", "x @ self.inner.weight"),
    "a layer that is not known": ("self.layer = make_layer()", "self.layer(x)"),
    "a layer": ("", "self.inner(x)"),
}
NOT_TRAINED = {
    "the inputs": ("", "x * 2"),
    "a buffer": ("", "x - self.shift"),
    "a frozen parameter": ("self.weight = nn.Parameter(torch.eye(8), requires_grad=False)", "x @ self.weight"),
    "a detached parameter": ("self.weight = nn.Parameter(torch.eye(8))", "x @ self.weight.detach()"),
}


def result(made: str, run: str):
    return migrated(PROGRAM.replace("MADE", made or "pass").replace("RUN", run))


@pytest.mark.parametrize(("made", "run"), TRAINED.values(), ids=TRAINED)
def test_statistics_with_gradients_are_reported(made: str, run: str) -> None:
    found = result(made, run)
    assert "h = h - h.mean(0)" in after(found)
    assert {finding.rule for finding in found.findings} == {"batch-coupling"}


@pytest.mark.parametrize(("made", "run"), NOT_TRAINED.values(), ids=NOT_TRAINED)
def test_statistics_without_gradients_are_global(made: str, run: str) -> None:
    found = result(made, run)
    assert "h = h - global_mean(h.mean(0))" in after(found) and not found.findings


def test_one_call_with_gradients_is_enough() -> None:
    text = PROGRAM.replace("MADE", "pass").replace("RUN", "self.inner(x)")
    evaluated = text.replace("for x, y", "net.eval()\nwith torch.no_grad():\n    for x, y in loader:\n        print(net(x).argmax(1))\nfor x, y")
    found = migrated(evaluated)
    assert "h = h - h.mean(0)" in after(found) and {f.rule for f in found.findings} == {"batch-coupling"}
