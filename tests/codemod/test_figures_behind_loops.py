"""Figures of the last batch, computed when its loop is over, say over how many rows they are means."""

from __future__ import annotations

import pytest

from codemod.marked import STEP, script
from codemod.memory import after, migrated


@pytest.mark.parametrize(
    ("code", "becomes"),
    [
        ("print((out.detach() - y).abs().mean().item())", "accelerator.global_mean((out.detach() - y).abs().mean(), weight=len(y)).item()"),
        ("print(loss.item())", "accelerator.global_mean(loss).item()"),
    ],
)
def test_the_rows_are_named(code: str, becomes: str) -> None:
    assert becomes in after(migrated(script(f"{STEP}{code}\n")))


def test_in_the_loop_the_runtime_knows_them() -> None:
    assert "weight" not in after(migrated(script(f"{STEP}    print((out.detach() - y).abs().mean().item())\n")))
