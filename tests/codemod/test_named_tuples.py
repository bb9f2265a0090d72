"""Named tuples and records keep what they are given, element by element."""

from __future__ import annotations

import pytest

from codemod.marked import START, STEP
from codemod.memory import after, migrated

FACTORY = "        return Pair(h, second=self.b(h))"
MODEL = """\
{top}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 2)

    def forward(self, x):
        h = self.a(x)
{make}


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
LOOP = STEP.replace("out = model(x)", "pair = model(x)\n    out = pair.second")
KINDS = {
    "function": ("from collections import namedtuple\nPair = namedtuple('Pair', ['first', 'second'])\n", FACTORY),
    "inside": ("from collections import namedtuple\n", "        Pair = namedtuple('Pair', 'first second')\n" + FACTORY),
    "class": (
        "from typing import NamedTuple\n\n\nclass Pair(NamedTuple):\n    first: torch.Tensor\n    second: torch.Tensor\n",
        FACTORY,
    ),
}
PICKS = {
    "loop": "for part in pair:\n        print(part.mean().item())",
    "zip": "for part, goal in zip(pair, [0.0, 1.0]):\n        print((part - goal).pow(2).mean().item())",
    "index": "print(pair[0].mean().item())",
    "unpacked": "first, second = pair\n    print(first.mean().item())",
    "name": "print(pair.first.mean().item())",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pick", PICKS)
def test_parts_of_a_result_are_rows_however_they_are_reached(kind: str, pick: str) -> None:
    top, make = KINDS[kind]
    text = after(migrated(START + MODEL.format(top=top, make=make) + LOOP + f"    {PICKS[pick]}\n"))
    assert text.count("accelerator.global_mean(") == 1
