"""Programs without a loader that stay refused: the line says what they train on, where, and what to write."""

from __future__ import annotations

import pytest

from codemod.memory import migrated

START = """\
import gym
import torch
import torchtext
import torch.nn.functional as F
from torch import nn

model = nn.Sequential(nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
STEP = "    optimizer.zero_grad()\n    loss = F.cross_entropy(model(x), y)\n    loss.backward()\n    optimizer.step()\n"
REASONS = {
    "an environment": (
        "env = gym.make('CartPole-v1')\nfor step in range(9):\n    x, y = env.step(0)\n",
        "train.py:9: it learns from an environment",
    ),
    "replayed rows of an environment": (
        "env = gym.make('CartPole-v1')\nkept = torch.randn(90, 4)\nfor step in range(9):\n    index = torch.randint(90, (8,))\n    x, y = kept[index], kept[index].argmax(1)\n",
        "train.py:9: it learns from an environment",
    ),
    "iterators of torchtext": (
        "batches = torchtext.data.BucketIterator(data, batch_size=8)\nfor batch in batches:\n    x, y = batch.text, batch.label\n",
        "train.py:9: the iterators of the old torchtext are no loaders",
    ),
    "time as the first dimension": (
        "layer = nn.LSTM(4, 4)\nfor step in range(0, 90, 10):\n    x, y = data[step : step + 10], labels[step : step + 10]\n",
        "train.py:9: this layer takes time as the first dimension",
    ),
    "the same data": (
        "x, y = torch.load('all.pt')\nfor step in range(9):\n",
        "train.py:12: the model gets the same data in every step",
    ),
    "weights of their own": (
        "weights = list(model.parameters())\nfor x, y in tasks:\n    inner = F.cross_entropy(model(x), y)\n    gradients = torch.autograd.grad(inner, weights, create_graph=True)\n",
        "train.py:12: it takes gradient steps inside of another",
    ),
    "unknown batches": (
        "for step in range(9):\n    x, y = source.read(8)\n    x = x.float()\n",
        "train.py:10: it is not known whether `x, y = source.read(8)` makes one batch",
    ),
}


@pytest.mark.parametrize(("batch", "reason"), REASONS.values(), ids=REASONS)
def test_the_reason_names_the_line(batch: str, reason: str) -> None:
    result = migrated(START + batch + STEP)
    assert result.status == "refused" and f"({reason}" in result.reason
