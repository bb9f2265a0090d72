"""Comprehensions over a loader: what they keep of each batch is global, and in the original's order."""

from __future__ import annotations

import pytest

from codemod.marked import STEP, script
from codemod.memory import after, migrated


def kept(line: str, before: str = "") -> str:
    """What becomes of a line of an evaluation after training."""
    text = after(migrated(script(f"{before}{STEP}with torch.no_grad():\n    {line}")))
    return text.partition("with torch.no_grad():\n    ")[2].strip()


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("kept = torch.cat([model(x) for x, _ in loader])", "kept = torch.cat([accelerator.gather_for_metrics(model(x)) for x, _ in loader])"),
        ("kept = list(model(x).cpu() for x, _ in loader)", "kept = list(accelerator.gather_for_metrics(model(x)).cpu() for x, _ in loader)"),
        ("kept = [y for _, y in loader]", "kept = [accelerator.gather_for_metrics(y) for _, y in loader]"),
        ("kept = {i: model(x) for i, (x, _) in enumerate(loader)}", "kept = {i: accelerator.gather_for_metrics(model(x)) for i, (x, _) in enumerate(loader)}"),
        ("kept = {i: F.cross_entropy(model(x), y) for i, (x, y) in enumerate(loader)}", "kept = {i: accelerator.global_mean(F.cross_entropy(model(x), y)) for i, (x, y) in enumerate(loader)}"),
        ("kept = [int(p) for x, _ in loader for p in model(x).argmax(1)]", "kept = [int(p) for x, _ in loader for p in accelerator.gather_for_metrics(model(x).argmax(1))]"),
        ("kept = [p == t for x, y in loader for p, t in zip(model(x)[:, 0], y)]", "kept = [p == t for x, y in loader for p, t in zip(accelerator.gather_for_metrics(model(x)[:, 0]), accelerator.gather_for_metrics(y))]"),
        ("kept = [(model(x), y) for x, y in loader]", "kept = [(accelerator.gather_for_metrics(model(x)), accelerator.gather_for_metrics(y)) for x, y in loader]"),
        ("kept = [(model(x), model(-x)) for x, y in loader]", "kept = [accelerator.gather_for_metrics((model(x), model(-x))) for x, y in loader]"),
    ],
)  # fmt: skip
def test_what_it_keeps_is_gathered_inside(line: str, becomes: str) -> None:
    assert kept(line) == becomes


def test_rows_left_on_the_host_go_back_there() -> None:
    device = "device = torch.device('cuda')\nmodel.to(device)\n"
    assert kept("kept = [y for _, y in loader]", device) == "kept = [accelerator.gather_for_metrics(y).cpu() for _, y in loader]"


@pytest.mark.parametrize("line", ["kept = [batch for batch in loader]", "kept = [(x, y) for x, y in loader]", "kept = [p.sum() for p in model.parameters()]"])
def test_batches_kept_to_train_on_stay(line: str) -> None:
    assert kept(line) == line


def test_in_training_rows_stay() -> None:
    code = "losses = []\n\n\ndef step(x, y):\n    loss = F.cross_entropy(model(x), y)\n    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n    return x\n\n\nseen = [step(x, y) for x, y in loader]"
    assert "seen = [step(x, y) for x, y in loader]" in after(migrated(script(code)))
