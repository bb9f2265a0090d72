"""Optimizer steps whose number depends on how many rows a process has."""

from __future__ import annotations

import pytest

from codemod.marked import script
from codemod.memory import migrated

UPDATE = "optimizer.zero_grad()\n        loss = F.cross_entropy(model(x), y)\n        loss.backward()\n        optimizer.step()\n"
CHUNKS = "def chunks(rows):\n    made = []\n    for i in range(0, len(rows), 8):\n        made.append(torch.utils.data.default_collate(rows[i:i + 8]))\n    return made\n"
VIEWS = "def views(rows):\n    x, y = torch.utils.data.default_collate(rows)\n    return (x, y), (-x, y)\n"
COLLATED = "{made}\nparts = DataLoader(dataset, batch_size=32, collate_fn={name})\nfor batch in parts:\n    for x, y in batch:\n        {update}"


@pytest.mark.parametrize(
    ("code", "found"),
    [
        (COLLATED.format(made=CHUNKS, name="chunks", update=UPDATE), True),
        (COLLATED.format(made=VIEWS, name="views", update=UPDATE), False),
        (
            f"for rows, labels in loader:\n    for x, y in zip(rows, labels):\n        x, y = x[None], y[None]\n        {UPDATE}",
            True,
        ),
        (f"for x, y in loader:\n    for _ in range(2):\n        {UPDATE}", False),
    ],
    ids=["a list of batches", "two views", "row by row", "two steps for each batch"],
)
def test_steps_in_loops_over_the_parts_of_a_batch(code: str, found: bool) -> None:
    assert ("row-steps" in {finding.rule for finding in migrated(script(code)).findings}) is found
