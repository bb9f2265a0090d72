"""`accel verify` of trainings in low precision: what only rounding makes differ is expected, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from accel_migrate.verify.job import Job
from accel_migrate.verify.report import DIFFERENT, EXPECTED, SAME
from accel_migrate.verify.runs import Request
from accel_migrate.verify.verify import verify
from accel_migrate.verify.warm import ForkingRunner

TRAINING = """
import torch, torch.nn.functional as F
torch.manual_seed(0)
g = torch.Generator().manual_seed(1)
x, y = torch.randn(96, 16, generator=g), torch.randint(0, 4, (96,), generator=g)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)){weights}
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(6):
    a, b = x[step * 16 : step * 16 + 16], y[step * 16 : step * 16 + 16]
    with torch.autocast("cpu", torch.bfloat16, enabled={autocast}):
        {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"loss {{loss.item():.9f}}")
"""
WHOLE = "loss = F.cross_entropy(model(a.to(model[0].weight.dtype)).float(), b)"
REWRITTEN = "loss = F.cross_entropy(torch.cat([F.linear(F.relu(F.linear(p.to(model[0].weight.dtype), model[0].weight / 3) * 3 + model[0].bias), model[2].weight, model[2].bias) for p in a.split(4)]).float(), b)"
"""The same in exact numbers: in low precision a third of a weight is rounded otherwise."""


def script(folder: Path, name: str, loss: str, autocast: bool, weights: str = "") -> Job:
    (folder / name).write_text(TRAINING.format(loss=loss, autocast=autocast, weights=weights))
    return Job(folder, name)


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkingRunner]:
    with ForkingRunner(tmp_path_factory.mktemp("runs")) as warm:
        yield warm


@pytest.mark.parametrize(
    ("loss", "lowered", "migrated", "verdict", "said"),
    [
        (REWRITTEN, (True, ""), (True, ""), EXPECTED, "precision: autocast to bfloat16 rounds"),
        (
            REWRITTEN.replace("* 3 +", "* 4 +"),
            (False, ".bfloat16()"),
            (False, ".bfloat16()"),
            DIFFERENT,
            "the first forward pass already computes another loss",
        ),
        (
            WHOLE,
            (True, ""),
            (False, ""),
            DIFFERENT,
            "the original computes with autocast to bfloat16, the migrated script with full precision",
        ),
        (
            REWRITTEN.replace("* 3 +", "* 3.1 +"),
            (True, ""),
            (True, ""),
            DIFFERENT,
            "the first forward pass already computes another loss",
        ),
        (WHOLE, (True, ""), (True, ""), SAME, ""),
    ],
    ids=["autocast", "wrong with weights in bfloat16", "autocast in one of the two", "wrong", "same"],
)
def test_rounding_is_told_from_what_is_wrong(
    warm: ForkingRunner,
    tmp_path: Path,
    loss: str,
    lowered: tuple[bool, str],
    migrated: tuple[bool, str],
    verdict: str,
    said: str,
) -> None:
    original, other = script(tmp_path, "train.py", WHOLE, *lowered), script(tmp_path, "other.py", loss, *migrated)
    result = verify(Request(original, other, (1,), timeout=100), warm).comparisons[0]
    assert result.verdict == verdict, result
    assert said in " ".join(result.reasons) and bool(said) == bool(result.reasons), result
    assert result.switched_off == (("precision",) if said and lowered == migrated else ())
