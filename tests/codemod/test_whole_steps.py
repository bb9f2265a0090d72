"""Optimizers that step on rows collected before: their gradients are nobody else's."""

from __future__ import annotations

from codemod.memory import migrated

SCALED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader


class Scaled(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.scale = nn.Parameter(torch.ones(1))

    def fit(self, loader):
        kept, goals = [], []
        with torch.no_grad():
            for x, y in loader:
                kept.append(self.inner(x))
                goals.append(y)
        out, goal = torch.cat(kept), torch.cat(goals)
        optimizer = torch.optim.LBFGS([self.scale])

        def closure():
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(out * self.scale, goal)
            loss.backward()
            return loss

        optimizer.step(closure)


def main():
    loader = DataLoader(samples(), batch_size=8, shuffle=True)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    Scaled(model).fit(loader)


main()
"""


def test_an_optimizer_that_steps_on_collected_rows_needs_no_gradients_of_others() -> None:
    assert "unknown-parameters" not in {f.rule for f in migrated(SCALED).findings}


def test_an_optimizer_that_steps_in_each_batch_does() -> None:
    step = "    optimizer = torch.optim.SGD([parts.made()['head']], lr=0.1)\n    for x, y in loader"
    text = SCALED.replace("    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n    for x, y in loader", step).replace("import torch\n", "import parts\nimport torch\n", 1)
    assert "unknown-parameters" in {f.rule for f in migrated(text).findings}
