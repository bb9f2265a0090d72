"""A loader that is looped over before everything is made is prepared before that loop: its batches are cut there."""

from __future__ import annotations

import pytest

from codemod.memory import after, migrated

HEAD = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n\n"
MADE = "loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)\n"
TRAINING = """\
net = nn.Linear(4, 2)
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    F.cross_entropy(net(x - mean), y).backward()
    sgd.step()
"""
PASSES = {
    "a loop": "mean = 0\nfor x, y in loader:\n    mean = mean + x.sum(0) / len(data)\n",
    "a function": "def mean_of(batches):\n    total, n = 0, 0\n    for x, y in batches:\n        total += x.sum(0)\n        n += len(x)\n"
    "    return total / n\n\n\nmean = mean_of(loader)\n",
    "a comprehension": "mean = sum(x.sum(0) for x, y in loader) / len(data)\n",
}  # fmt: skip


@pytest.mark.parametrize("code", PASSES.values(), ids=PASSES)
def test_the_loader_is_prepared_before(code: str) -> None:
    text = after(migrated(HEAD + MADE + code + TRAINING))
    assert text.index("loader = accelerator.prepare(loader)") < text.index("mean")
    assert text.index("sgd = torch") < text.index("net, sgd = accelerator.prepare(net, sgd)")


def test_one_call_where_all_are_made_before() -> None:
    text = after(migrated(HEAD + MADE + TRAINING.replace("for x", PASSES["a loop"] + "for x", 1)))
    assert "net, sgd, loader = accelerator.prepare(net, sgd, loader)" in text
