"""The data of packed sequences have a row for each step: a mean over them counts by the steps of this process."""

from __future__ import annotations

import pytest

from codemod.marked import in_step
from codemod.memory import after, migrated

HEAD = "from torch.nn.utils.rnn import pack_padded_sequence\n"
STEPS = {
    "the first of it": "goal = pack_padded_sequence(y, sizes, batch_first=True)[0]",
    "its data": "goal = pack_padded_sequence(y, lengths=sizes, batch_first=True).data",
    "unpacked": "goal, _ = pack_padded_sequence(y, sizes.cpu(), batch_first=True)",
}


@pytest.mark.parametrize("code", STEPS.values(), ids=STEPS)
def test_a_mean_over_steps_is_weighted_by_them(code: str) -> None:
    step = f"{HEAD}sizes = (x[:, 0] > 0).long() + 1\n{code}\nprint(F.cross_entropy(out, goal).item())"
    result = migrated(in_step(step))
    assert "accelerator.global_mean(F.cross_entropy(out, goal), weight=sum(sizes)).item()" in after(result) and not result.findings


def test_what_is_unpacked_has_a_row_for_each_sample() -> None:
    step = f"{HEAD}from torch.nn.utils.rnn import pad_packed_sequence\np = pack_padded_sequence(x, [1] * len(x))\nz, n = pad_packed_sequence(p, total_length=8)\nprint(z.mean().item())"
    assert "accelerator.global_mean(z.mean()).item()" in after(migrated(in_step(step)))
