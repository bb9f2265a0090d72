"""Batches with parts: their length is no number of rows, and `map` over their parts keeps what each is."""

from __future__ import annotations

import pytest

from codemod.marked import script
from codemod.memory import after, migrated

STEP = "    loss = F.cross_entropy(model(x), y)\n    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"
TESTED = "for batch in loader:\n    if isinstance(batch, (list, tuple)):\n        if len(batch) > 1:\n            y = batch[1]\n        x = batch[0]\n" + STEP
TAKEN_APART = "for batch in loader:\n    assert len(batch) == 2\n    x, y = batch\n" + STEP


@pytest.mark.parametrize("body", [TESTED, TAKEN_APART])
def test_the_length_of_a_batch_with_parts_stays(body: str) -> None:
    assert "global_len" not in after(migrated(script(body)))


def test_the_length_of_a_part_is_that_of_all_rows() -> None:
    body = "seen = 0\nfor x, y in loader:\n    seen += len(x)\n" + STEP + "print(seen)\n"
    assert "seen += accelerator.global_len(x)" in after(migrated(script(body)))


def test_what_map_gives_for_each_part_is_that_part() -> None:
    body = "total = 0.0\nfor x, y in loader:\n    x, y = map(torch.autograd.Variable, (x, y))\n" + STEP + "    total += loss.item()\nprint(total)\n"
    result = migrated(script(body))
    assert not result.findings
    assert "total += accelerator.global_mean(loss).item()" in after(result)
