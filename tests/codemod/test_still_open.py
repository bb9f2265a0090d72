"""What the first run leaves to do by hand is still found in its result, until somebody has done it."""

from __future__ import annotations

import pytest

from accel_migrate.command import cli
from accel_migrate.edits import Severity
from accel_migrate.migrate import migrate
from codemod.conftest import Files
from codemod.memory import after, program
from codemod.rule_pages import Example, examples

NOT_FOUND_AGAIN = {"native-amp", "wrapped-keys"}
"""Findings about what the migration itself takes away."""
FOUND = [e for e in examples() if e.kind == "Finding" and not e.in_notebook and e.page not in {"out-of-reach", *NOT_FOUND_AGAIN}]
CLEAN = [e for e in examples() if e.kind in {"Before", "Instead"} and not e.in_notebook and e.options.target == "accel_runtime"]


def left(example: Example) -> tuple[list[str], list[str]]:
    """Ids of what the first run leaves, and of what a second run finds in its result."""
    first = example.migrated()
    second = migrate(program(after(first)), example.options)
    assert second.status == "unchanged"
    return sorted(f.rule for f in first.findings if f.severity is not Severity.INFO), sorted(f.rule for f in second.findings)


@pytest.mark.parametrize("example", FOUND, ids=lambda example: example.page)
def test_a_finding_stays(example: Example) -> None:
    first, second = left(example)
    assert first == second


@pytest.mark.parametrize("example", CLEAN, ids=lambda example: example.page)
def test_a_result_without_findings_stays_without(example: Example) -> None:
    assert left(example) == ([], [])


COUPLED = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(99, 8), torch.randn(99, 8)), batch_size=32)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    partner = torch.randperm(len(x))
    loss = torch.nn.functional.mse_loss(model(x)[partner], y)
    loss.backward()
    optimizer.step()
"""


def test_a_second_run_says_what_is_left_and_its_status_too(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    root = files({"train.py": COUPLED})
    assert cli.main(["train.py", "--write"]) == 1
    written = (root / "train.py").read_text()
    capsys.readouterr()
    assert cli.main(["train.py", "--write"]) == 1
    out = capsys.readouterr().out
    line = next(number for number, text in enumerate(written.split("\n"), 1) if "randperm" in text)
    assert out.startswith("train.py: already accelerated")
    assert f"  train.py:{line}: batch-permutation: " in out
    assert out.endswith("0 edits, 0 unsafe held back, 1 by hand\n")
    assert (root / "train.py").read_text() == written


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("torch.randperm(len(x))", "torch.randperm(len(x))  # accel: ignore[batch-permutation]", "a comment says that it is meant so"),
        ("torch.randperm(len(x))", "slice(None)", "the code has gone"),
    ],
)
def test_what_has_been_seen_to_is_not_found_again(old: str, new: str, what: str, files: Files) -> None:
    root = files({"train.py": COUPLED})
    cli.main(["train.py", "--write"])
    path = root / "train.py"
    path.write_text(path.read_text().replace(old, new))
    assert cli.main(["train.py"]) == 0


def test_a_weight_in_the_call_settles_its_denominator(files: Files) -> None:
    page = next(e for e in FOUND if e.page == "weighted-mean")
    text = after(page.migrated())
    assert "accelerator.backward(loss)" in text
    settled = text.replace("accelerator.backward(loss)", "accelerator.backward(loss, weight=count)")
    assert migrate(program(settled), page.options).findings == []
