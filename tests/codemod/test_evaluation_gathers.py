"""Where an evaluation loop gathers, and what that makes of the lines below."""

from __future__ import annotations

import pytest

from codemod.marked import STEP, script
from codemod.memory import after, migrated


def evaluated(body: str, before: str = "") -> str:
    """What becomes of the body of an evaluation loop after training."""
    lines = body.replace("\n", "\n    ")
    text = after(migrated(script(f"{before}{STEP}hits, kept = 0, []\nfor x, y in loader:\n    {lines}\nprint(hits, kept)")))
    return text.rpartition("for x, y in loader:\n    ")[2].partition("\naccelerator.print(")[0].replace("\n    ", "\n")


def test_moves_after_a_gather_vanish() -> None:
    body = "out = model(x.to(device))\nhits += (out.argmax(1) == y.to(device)).sum()"
    assert ".to(" not in evaluated(body, "device = torch.device('cuda')\n")


def test_a_host_copy_that_moves_again_keeps_its_moves() -> None:
    body = "out = model(x.to(device)).cpu()\nhits += (out.to(device).argmax(1) == y.to(device)).sum()"
    assert "out.to(accelerator.device).argmax(1) == y)" in evaluated(body, "device = torch.device('cuda')\n")


@pytest.mark.parametrize(
    ("body", "becomes"),
    [
        (
            "for p in model(x).argmax(1):\n    kept.append(int(p))",
            "output = accelerator.gather_for_metrics(model(x))\nfor p in output.argmax(1):\n    kept.append(int(p))",
        ),
        (
            "for p, t in zip(model(x).argmax(1), y):\n    hits += int(p == t)",
            "output, y = accelerator.gather_for_metrics((model(x), y))\nfor p, t in zip(output.argmax(1), y):\n    hits += int(p == t)",
        ),
        (
            "if model(x).argmax(1)[0] == y[0]:\n    hits += 1",
            "output, y = accelerator.gather_for_metrics((model(x), y))\nif output.argmax(1)[0] == y[0]:\n    hits += 1",
        ),
    ],
)
def test_the_head_of_a_loop_or_condition_is_gathered_above_it(body: str, becomes: str) -> None:
    assert evaluated(body) == becomes


@pytest.mark.parametrize("number", ["len(x)", "x.size(0)", "x.shape[0]"])
def test_a_loop_over_gathered_rows_runs_over_those_of_all_processes(number: str) -> None:
    text = evaluated(f"right = model(x).argmax(1) == 1\nfor i in range({number}):\n    kept.append(bool(right[i]))")
    assert "for i in range(accelerator.global_len(x)):" in text and "right = accelerator.gather_for_metrics(right)" in text


def test_gathered_rows_are_shaped_by_the_number_of_all_rows() -> None:
    text = evaluated("out = model(x)\nflat = out.view(x.size(0), -1)\nkept.append(flat.argmax(1))")
    assert "out.view(accelerator.global_len(x), -1)" in text
