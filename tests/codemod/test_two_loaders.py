"""Losses over batches of two loaders are reported; a model whose parts are handed lists is no mixture."""

from __future__ import annotations

import pytest

from codemod.marked import STEP, script
from codemod.memory import migrated

MODEL = """\
class Root(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, 8)

    def forward(self, xs):
        return self.fc(torch.cat(xs, 1))


class Tree(nn.Module):
    def __init__(self, level):
        super().__init__()
        self.root = Root(16)
        self.left = nn.Linear(8, 8) if level == 1 else Tree(level - 1)
        self.right = nn.Linear(8, 8) if level == 1 else Tree(level - 1)

    def forward(self, x):
        left = self.left(x)
        right = self.right(left)
        return self.root([left, right])


model = nn.Sequential(Tree(1), Tree(2), Tree(2), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
other = DataLoader(dataset, batch_size=5)
"""
EVALUATE = """\
model.eval()
with torch.no_grad():
    for number, (a, b) in enumerate(other):
        print(number, F.cross_entropy(model(a), b).item())
"""
BOTH = STEP.replace("for x, y in loader:", "for (x, y), (a, b) in zip(loader, other):").replace("out, y)", "out, y) + F.cross_entropy(model(a), b)")


def two_loaders(code: str) -> int:
    return sum(f.rule == "two-loaders" for f in migrated(script(code)).findings)


@pytest.mark.parametrize("code", [MODEL + STEP + EVALUATE, MODEL + EVALUATE + STEP])
def test_lists_in_a_forward_are_no_mixture(code: str) -> None:
    assert two_loaders(code) == 0


def test_two_loaders_in_one_loss_are() -> None:
    assert two_loaders(MODEL + BOTH) == 1
