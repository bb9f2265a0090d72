"""Dimensions that stand in a variable, or that a condition chooses."""

from __future__ import annotations

import pytest

from accel_migrate.facts.values import Spread
from codemod.marked import in_step, marked

CASES = {
    "a tuple in a variable": ("dims = (1, 2)\n«x.sum(dim=dims)»", {Spread.SHARD}),
    "with the rows among them": ("dims = (0, 2)\n«x.sum(dim=dims)»", {Spread.SUM}),
    "chosen, perhaps over the rows": ("dims = (-1, -2) if flag else (-1, -2, -3)\n«x.sum(dim=dims)»", {Spread.SUM}),
    "chosen, never over the rows": ("dims = (1, 2) if flag else (1,)\n«x.sum(dim=dims)»", {Spread.SHARD}),
    "images": ("«x.sum(dim=(-1, -2, -3))»", {Spread.SHARD}),
}


@pytest.mark.parametrize(("code", "spreads"), CASES.values(), ids=CASES)
def test_a_sum_over_dimensions_in_a_variable(code: str, spreads: set[Spread]) -> None:
    assert marked(in_step(code)).spreads == spreads


def test_a_comparison_that_picks_elements_is_no_decision() -> None:
    code = "sums = out.sum(0)\nkept = torch.where(«sums == 0», sums, sums + 1)\n"
    found = marked(in_step(code))
    assert not [c for c in found.facts.conversions.values() if c.how == "test"]
