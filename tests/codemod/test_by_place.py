"""Tensors kept from batch to batch by the places of the rows: reported, and left as they are."""

from __future__ import annotations

import pytest

from codemod.marked import script
from codemod.memory import after, migrated

LOOP = """\
delta = torch.zeros(32, 8, requires_grad=True)
for x, y in loader:
    loss = F.cross_entropy(model(x + delta[: x.size(0)]), y)
    optimizer.zero_grad()
    loss.backward()
    delta.data = (delta + 0.1 * delta.grad.sign()).clamp(-1, 1)
    delta.data[: x.size(0)] = torch.clamp(delta[: x.size(0)], -x, x)
    optimizer.step()
    delta.grad.zero_()
"""
ANEW = LOOP.replace("delta = torch.zeros(32, 8, requires_grad=True)\n", "").replace("loader:\n", "loader:\n    delta = torch.zeros(32, 8, requires_grad=True)\n")
UNCHANGED = """\
ones = torch.ones(32)
for x, y in loader:
    loss = F.binary_cross_entropy_with_logits(model(x)[:, 0], ones[: len(x)])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_what_is_kept_by_place_is_reported_and_not_rewritten() -> None:
    result = migrated(script(LOOP))
    assert [f.rule for f in result.findings] == ["places-in-batch"]
    assert "    delta.data[: x.size(0)] = torch.clamp(delta[: x.size(0)], -x, x)\n" in after(result)


@pytest.mark.parametrize("body", [ANEW, UNCHANGED])
def test_what_starts_anew_or_never_changes_is_not(body: str) -> None:
    assert "places-in-batch" not in [f.rule for f in migrated(script(body)).findings]
