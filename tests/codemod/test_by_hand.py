"""Batches that a program makes by itself: where they are cut, and when the program is refused."""

from __future__ import annotations

import pytest

from accel_migrate.result import Options
from codemod.memory import after, migrated

START = """\
import torch
import torch.nn.functional as F
from torch import nn

inputs = torch.randn(400, 8)
targets = (inputs.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def get_batch():
    index = torch.randint(0, len(inputs), (32,))
    return inputs[index], targets[index]

"""
STEP = "    optimizer.zero_grad()\n    loss = F.cross_entropy(model(x), y)\n    loss.backward()\n    optimizer.step()\n"
CUT = {
    "a function": ("for step in range(9):\n    x, y = get_batch()\n", "x, y = accelerator.shard_batch(get_batch())"),
    "random indices": (
        "for step in range(9):\n    index = torch.randint(0, 400, (32,))\n    x, y = inputs[index], targets[index]\n",
        "index = accelerator.shard_batch(torch.randint(0, 400, (32,)))",
    ),
    "slices of a permutation": (
        "order = torch.randperm(400)\nfor start in range(0, 400, 32):\n    x, y = inputs[order[start : start + 32]], targets[order[start : start + 32]]\n",
        "x, y = accelerator.shard_batch((inputs[order[start : start + 32]], targets[order[start : start + 32]]))",
    ),
    "slices": (
        "for start in range(0, 400, 32):\n    x = inputs[start : start + 32]\n    y = targets[start : start + 32]\n",
        "x = accelerator.shard_batch(inputs[start : start + 32])",
    ),
    "draws": ("for step in range(9):\n    x = torch.randn(32, 8)\n    y = (x.sum(1) > 0).long()\n", "x = accelerator.shard_batch(torch.randn(32, 8))"),
    "a while loop": ("step = 0\nwhile step < 9:\n    x, y = get_batch()\n    step += 1\n", "x, y = accelerator.shard_batch(get_batch())"),
}
REFUSED = {
    "the whole data set": "x, y = inputs, targets\nfor step in range(9):\n",
    "slices along time": "lstm = nn.LSTM(8, 8)\nfor start in range(0, 400, 32):\n    x = inputs[start : start + 32]\n    y = targets[start : start + 32]\n",
}


@pytest.mark.parametrize(("batch", "cut"), CUT.values(), ids=CUT)
def test_each_process_keeps_its_rows(batch: str, cut: str) -> None:
    result = migrated(START + batch + STEP)
    assert cut in after(result) and not result.findings


@pytest.mark.parametrize("batch", REFUSED.values(), ids=REFUSED)
def test_what_may_be_no_batch_is_refused(batch: str) -> None:
    assert migrated(START + batch + STEP).status == "refused"


def test_what_a_model_makes_of_a_batch_is_not_cut() -> None:
    text = START + "for step in range(9):\n    x, y = get_batch()\n" + STEP + "    with torch.no_grad():\n        out = model(get_batch()[0])\n        print(out.mean().item())\n"
    result = after(migrated(text))
    assert "out = model(get_batch()[0])" in result and "accelerator.print(out.mean().item())" in result


def test_accelerate_cannot_cut_such_batches() -> None:
    result = migrated(START + CUT["a function"][0] + STEP, Options(target="accelerate"))
    assert result.status == "refused" and "--target accel_runtime" in result.reason
