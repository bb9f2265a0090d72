"""Something computed from one row is not gathered as if it were rows."""

from __future__ import annotations

from codemod.marked import in_step
from codemod.memory import after, migrated


def test_a_picture_made_of_the_first_row_is_reported() -> None:
    result = migrated(in_step("torch.save((x.cpu()[0] * 0.5 + 1).clamp(min=0), 'first.pt')"))
    assert "gather_for_metrics" not in after(result)
    assert "local-figure" in {f.rule for f in result.findings}


def test_the_first_row_itself_is_picked_after_the_gather() -> None:
    assert "accelerator.gather_for_metrics(x)[0]" in after(migrated(in_step("torch.save(x[0], 'first.pt')")))
