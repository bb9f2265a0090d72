"""Partners of the rows of a batch are taken from the whole batch."""

from __future__ import annotations

import pytest

from accel_migrate.result import Options
from codemod.memory import after, migrated

PROGRAM = """\
import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(99, 8), torch.randint(2, (99,))), batch_size=32)
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    {step}
    loss.backward()
    optimizer.step()
"""
LOSS = "loss = F.cross_entropy(model(x), y)"


def program(*lines: str) -> str:
    return PROGRAM.replace("{step}", "\n    ".join(lines))


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            ["p = torch.randperm(len(x))", "x = (x + x[p]) / 2"],
            ["p = accelerator.draw(torch.randperm, len(x))", "x = (x + accelerator.gather_for_metrics(x)[p]) / 2"],
        ),
        (
            ["p = np.random.permutation(x.shape[0])", "x = x[p, :4]"],
            ["p = accelerator.draw(np.random.permutation, x.shape[0])", "accelerator.gather_for_metrics(x)[p, :4]"],
        ),
        (
            ["x = x[torch.randperm(x.size(0))]"],
            ["x = accelerator.gather_for_metrics(x)[accelerator.draw(torch.randperm, x.size(0))]"],
        ),
        (["x = x + x.flip(0)"], ["x = x + accelerator.local_rows(accelerator.gather_for_metrics(x).flip(0))"]),
        (
            ["x = x + torch.flip(x, [0])"],
            ["accelerator.local_rows(torch.flip(accelerator.gather_for_metrics(x), [0]))"],
        ),
        (["x = x + x.roll(1, dims=0)"], ["accelerator.local_rows(accelerator.gather_for_metrics(x).roll(1, dims=0))"]),
    ],
)
def test_partners_come_from_the_whole_batch(lines: list[str], expected: list[str]) -> None:
    result = migrated(program(*lines, LOSS))
    assert result.findings == []
    for text in expected:
        assert text in after(result)


@pytest.mark.parametrize(
    ("lines", "rule"),
    [
        (["p = torch.randperm(len(x))", "h = model(x)", "loss = F.cross_entropy(h + h[p], y)"], "batch-permutation"),
        (["p = torch.randperm(len(x))", "first = p.tolist()[0]", LOSS], "batch-permutation"),
        (["h = model(x)", "loss = F.cross_entropy(h + h.flip(0), y)"], "row-mixing"),
    ],
)
def test_what_gradients_flow_through_or_what_is_asked_of_the_order_is_reported(lines: list[str], rule: str) -> None:
    result = migrated(program(*lines), Options(ignore=frozenset({"whole-batch-loss"})))
    assert rule in {finding.rule for finding in result.findings}
    assert "draw(" not in after(result)


def test_rows_turned_along_another_dimension_stay() -> None:
    result = migrated(program("x = x.flip(1) + x.roll(1, 1)", LOSS))
    assert result.findings == []
    assert "x = x.flip(1) + x.roll(1, 1)" in after(result)


def test_helpers_far_from_the_accelerator_use_the_functions_of_the_runtime() -> None:
    files = "def mixed(x, y):\n    p = torch.randperm(len(x))\n    return (x + x[p]) / 2, y[p]\n\n\nclass Mixing(torch.nn.Module):\n    def forward(self, x, y):\n        return mixed(x, y)\n\n\n"
    text = program("x, y = mixed(x, y)", LOSS).replace("loader = ", files + "loader = ", 1)
    result = migrated(text)
    assert result.findings == []
    assert "p = accelerator.draw(torch.randperm, len(x))" in after(result)


def test_where_the_rule_is_ignored_partners_are_reported() -> None:
    result = migrated(
        program("p = torch.randperm(len(x))", "x = x[p] + x.flip(0)", LOSS), Options(ignore=frozenset({"partner-rows"}))
    )
    assert {finding.rule for finding in result.findings} == {"batch-permutation", "row-mixing"}
