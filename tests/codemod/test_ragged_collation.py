"""A `collate_fn` that flattens samples into the parts they have: the rows of its batches are the parts."""

from __future__ import annotations

import pytest

from codemod.memory import after, migrated

PROGRAM = """\
import itertools

import torch
from torch import nn
from torch.utils.data import DataLoader

{collate}


loader = DataLoader(sentences(), batch_size=8, shuffle=True, collate_fn=collate)
model = nn.Linear(1, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in loader:
    x, y = batch[0], batch[1]
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
FLAT = {
    "a comprehension": "def collate(many):\n    flat = [p for one in many for p in one]\n    return torch.tensor([p[0] for p in flat]), torch.tensor([p[1] for p in flat])",
    "a chain": "def collate(many):\n    a, b = zip(*itertools.chain.from_iterable(many))\n    return torch.stack(a), torch.tensor(b)",
    "a chain of all": "collate = lambda many: torch.stack(list(itertools.chain(*many)))",
    "lists that grow": "def collate(many):\n    flat = []\n    for one in many:\n        flat.extend(one)\n    return torch.tensor(flat)[:, :1], torch.tensor(flat)[:, 1]",
    "two loops": "def collate(many):\n    a, b = [], []\n    for one in many:\n        for p, q in one:\n            a.append(p)\n            b.append(q)\n    return torch.stack(a), torch.tensor(b)",
}
OTHERS = {
    "one row each": "def collate(many):\n    return torch.stack([a for a, _ in many]), torch.tensor([b for _, b in many])",
    "labels of the samples": "def collate(many):\n    flat = [p for one in many for p in one[0]]\n    return torch.tensor(flat), torch.tensor([one[1] for one in many])",
    "places of the samples": "def collate(many):\n    flat = [p for one in many for p in one]\n    return torch.tensor(flat), torch.tensor([i for i, one in enumerate(many) for _ in one])",
}


@pytest.mark.parametrize("code", FLAT.values(), ids=FLAT)
def test_rows_are_the_parts(code: str) -> None:
    result = migrated(PROGRAM.format(collate=code))
    assert 'DataLoaderConfiguration(split_batches=True, collate="rows")' in after(result) and not result.findings


@pytest.mark.parametrize("code", OTHERS.values(), ids=OTHERS)
def test_rows_are_the_samples(code: str) -> None:
    assert 'collate="rows"' not in after(migrated(PROGRAM.format(collate=code)))
