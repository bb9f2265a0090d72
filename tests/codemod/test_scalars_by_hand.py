"""What is one number, or another name for rows, is no batch to cut."""

from __future__ import annotations

import pytest

from codemod.memory import after, migrated

PROGRAM = """\
import numpy as np
import torch
from torch import nn

images = torch.randn(9, 20, 4)
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100):
    view = {draw}
    picked = np.random.choice(20, size=[8], replace=False)
    rows = images[view][picked]
    out = model(rows)
    optimizer.zero_grad()
    image_loss = ((out - rows) ** 2).mean()
    loss = image_loss
    loss = loss + (out ** 2).mean()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("draw", ["np.random.choice(9)", "np.random.randint(0, 9)", "int(np.random.uniform(0, 9))"])
def test_only_the_rows_are_cut(draw: str) -> None:
    text = after(migrated(PROGRAM.replace("{draw}", draw)))
    assert text.count("shard_batch") == 1
    assert "picked = accelerator.shard_batch(np.random.choice(20, size=[8], replace=False))" in text
