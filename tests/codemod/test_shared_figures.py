"""A figure that is shown several times is made global once."""

from __future__ import annotations

import pytest

from codemod.test_kept_figures import step

ONCE = "global_loss = accelerator.global_mean(loss).item()\n"


@pytest.mark.parametrize(
    ("code", "becomes"),
    [
        (
            "total += loss.item()\nif step:\n    print(loss.item())",
            ONCE + "total += global_loss\nif step:\n    accelerator.print(global_loss)",
        ),
        (
            "value = loss.item()\nprint(loss.item())",
            "value = accelerator.global_mean(loss).item()\naccelerator.print(value)",
        ),
        ("print(loss.item(), loss.item())", ONCE + "accelerator.print(global_loss, global_loss)"),
        (
            "print(f'{loss:.3f}')\ntotal += loss.item()",
            ONCE + "accelerator.print(f'{global_loss:.3f}')\ntotal += global_loss",
        ),
        (
            "if loss.item() > 9:\n    print(loss.item())",
            ONCE + "if global_loss > 9:\n    accelerator.print(global_loss)",
        ),
    ],
)
def test_once_where_it_is_shown_first(code: str, becomes: str) -> None:
    assert step(code, "total = 0.0\nstep = 1") == becomes


@pytest.mark.parametrize(
    "code",
    [
        "print(loss.item())\nloss = loss * 2\nprint(loss.item())",
        "print(loss.item())\nloss.mul_(2)\nprint(loss.item())",
        "if step:\n    print(loss.item())\nelse:\n    print(loss.item())",
        "if step:\n    print(loss.item())\nprint(loss.item())",
        "print(loss.item())\nprint(loss)",
        "for _ in range(2):\n    print(loss.item())\n    loss = loss * 2",
    ],
)
def test_what_may_be_another_number_is_its_own(code: str) -> None:
    becomes = step(code, "step = 1")
    assert "global_loss" not in becomes and becomes.count("global_mean") == code.count("print")


def test_a_name_that_holds_something_else_by_then_is_not_used() -> None:
    becomes = step("value = loss.item()\nvalue = value * 2\nprint(loss.item(), value)")
    assert becomes.startswith(ONCE + "value = global_loss") and "print(global_loss, value)" in becomes
