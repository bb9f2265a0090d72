"""Tensors that are made as long as the batch, classes that occur in it, and losses that add up several batches."""

from __future__ import annotations

import pytest

from codemod.memory import after, migrated

PROGRAM = """\
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(99, 8), torch.randint(2, (99,))), batch_size=16)
net = nn.Linear(8, 2)
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
seen = 0
for x, y in loader:
    LINES
    loss = F.cross_entropy(net(x), y)
    sgd.zero_grad()
    loss.backward()
    sgd.step()
"""
REPEATED = {
    "repeat_interleave": "torch.arange(4).repeat_interleave(x.size(0))",
    "repeat_interleave, the function": "torch.repeat_interleave(torch.arange(4), len(x))",
    "repeat": "torch.ones(8).repeat(x.shape[0], 1)",
    "tile": "torch.ones(8).tile((len(x), 1))",
    "expand": "torch.ones(1, 8).expand(len(x), -1)",
}
SUMMED = """\
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(99, 8), torch.randint(2, (99,))), batch_size=16LAST)
net = nn.Linear(8, 2)
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(3):
    START
    for x, y in loader:
        ADD
    END
    sgd.zero_grad()
    total.backward()
    sgd.step()
"""
ADDED = {
    "a sum": ("total = 0", "total = total + F.cross_entropy(net(x), y)", "pass"),
    "a sum in place": ("total = 0", "total += F.cross_entropy(net(x), y)", "pass"),
    "a list": ("losses = []", "losses.append(F.cross_entropy(net(x), y))", "total = torch.stack(losses).mean()"),
}


@pytest.mark.parametrize("made", REPEATED.values(), ids=REPEATED)
def test_what_is_as_long_as_the_batch_is_counted_globally(made: str) -> None:
    text = after(migrated(PROGRAM.replace("LINES", f"rows = {made}\n    seen += len(rows)")))
    assert "seen += accelerator.global_len(rows)" in text


def test_what_all_processes_repeat_alike_is_not() -> None:
    text = after(migrated(PROGRAM.replace("LINES", "rows = torch.ones(8).repeat(3, 1)\n    seen += len(rows)")))
    assert "seen += len(rows)" in text


def test_classes_are_counted_over_the_whole_batch() -> None:
    text = after(migrated(PROGRAM.replace("LINES", "classes, number = torch.unique(y, return_counts=True)\n    seen += number.max().item()")))
    assert "torch.unique(accelerator.gather_for_metrics(y), return_counts=True)" in text and "number.max().item()" in text


@pytest.mark.parametrize(("call", "found"), [("F.one_hot(y)", {"row-mixing"}), ("F.one_hot(y, 2)", set()), ("F.one_hot(y, num_classes=2)", set())])
def test_one_hot_without_a_width_is_reported(call: str, found: set[str]) -> None:
    assert {f.rule for f in migrated(PROGRAM.replace("LINES", f"target = {call}")).findings} == found


def summed(start: str, add: str, end: str, last: str = "") -> str:
    return SUMMED.replace("LAST", last).replace("START", start).replace("ADD", add).replace("END", end)


@pytest.mark.parametrize(("start", "add", "end"), ADDED.values(), ids=ADDED)
def test_a_loss_of_several_batches_is_that_of_whole_batches(start: str, add: str, end: str) -> None:
    result = migrated(summed(start, add, end))
    assert "accelerator.gather_with_grad((net(x), y))" in after(result) and "accelerator.backward(total)" in after(result)
    assert not result.findings


@pytest.mark.parametrize(("start", "add", "end"), ADDED.values(), ids=ADDED)
def test_batches_of_one_size_need_no_gather(start: str, add: str, end: str) -> None:
    text = after(migrated(summed(start, add, end, ", drop_last=True")))
    assert "gather" not in text and "accelerator.backward(total)" in text
