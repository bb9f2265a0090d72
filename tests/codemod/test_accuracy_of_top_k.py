"""The accuracy function of the ImageNet example, whose hits have a column for each sample."""

from __future__ import annotations

import pytest

from codemod.marked import in_step
from codemod.memory import after, migrated

TOP = """\
_, guess = out.topk(2, 1, True, True)
guess = guess.t()
hits = guess.eq(y.view(1, -1).expand_as(guess))
print((hits[:1].{flat}(-1).float().sum(0) * (100.0 / y.size(0))).item())
"""


@pytest.mark.parametrize("flat", ["view", "reshape"])
def test_the_first_guesses_of_all_samples_are_summed(flat: str) -> None:
    text = after(migrated(in_step(TOP.replace("{flat}", flat))))
    assert "gather" not in text
    assert text.count("accelerator.global_mean(") == 1
