"""Batches that a program makes without a loader: cut where all of a step's inputs are known to be rows, else refused."""

from __future__ import annotations

import pytest

from codemod.memory import after, migrated

START = """\
import torch
import torch.nn.functional as F
from torch import nn

X, Y = torch.randn(90, 4), torch.randint(2, (90,))


class Scores(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, rows, others=None, scale=1.0):
        return self.layer(rows) * scale


def words(size):
    for start in range(0, 90, size):
        yield torch.tensor([p for p in X[start : start + size].tolist()])


def distance(scores, wanted, factor=1.0):
    return (scores - wanted).abs().mean() * factor


model = Scores()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for word in words(30):
    index = torch.randint(90, (30,))
    rows, target, scale = X[index], Y[index], 0.5
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("loss", ["F.cross_entropy(model(rows), target)", "F.cross_entropy(model(rows, scale=scale), target)", "distance(model(rows), 0.5, word)"])
def test_steps_of_rows_alone_are_cut(loss: str) -> None:
    assert "index = accelerator.shard_batch(torch.randint(90, (30,)))" in after(migrated(START.format(loss=loss)))


@pytest.mark.parametrize(
    ("loss", "input"),
    [
        ("F.cross_entropy(model(rows, word), target)", "word"),
        ("F.cross_entropy(model(others=word, rows=rows), target)", "word"),
        ("F.mse_loss(model(rows), word)", "word"),
        ("nn.MSELoss()(model(rows), word)", "word"),
        ("((model(rows) - word) ** 2).mean()", "word"),
        ("distance(model(rows), word)", "word"),
    ],
)
def test_another_input_that_is_not_known_to_be_rows_is_named(loss: str, input: str) -> None:
    result = migrated(START.format(loss=loss))
    assert result.status == "refused"
    assert f"train.py:28: it is not known whether `for {input} in words(30)` makes one batch" in result.reason


def test_without_any_batch_the_line_that_makes_the_input_is_named() -> None:
    result = migrated(START.format(loss="F.cross_entropy(model(word), target)").replace("X[index], Y[index]", "X, Y"))
    assert "train.py:28: it is not known whether `for word in words(30)` makes one batch" in result.reason


@pytest.mark.parametrize("draw", ["torch.randn(*rows.shape)", "torch.randn(rows.size(0), 4)", "torch.rand(rows.size())", "torch.randint(9, (len(rows), 4))"])
def test_noise_shaped_like_what_is_not_known_makes_no_batch(draw: str) -> None:
    lines = START.format(loss="(model(rows) - target).abs().mean()").replace("for word in words(30)", "for batch in words(30)")
    result = migrated(lines.replace("rows, target, scale = X[index], Y[index], 0.5", f"rows, target = [part for part in batch]\n    rows = rows + 0.1 * {draw}"))
    assert result.status == "refused"
    assert "it is not known whether `rows, target = [part for part in batch]` makes one batch" in result.reason
