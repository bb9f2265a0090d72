"""What a migration leaves to do by hand is found in its result by the linter, too."""

from __future__ import annotations

import json

import pytest

from accel_migrate.check.check import Wanted, check
from accel_migrate.command.umbrella import main
from accel_migrate.edits import Severity
from accel_migrate.places import line_of
from codemod.conftest import Files
from codemod.memory import after, program
from codemod.rule_pages import Example, examples

FOUND = [
    e
    for e in examples()
    if e.kind == "Finding" and e.page in {"packed-length", "mixed-reduction", "batch-permutation", "weighted-mean"}
]


@pytest.mark.parametrize("example", FOUND, ids=lambda example: example.page)
def test_it_is_reported_at_its_line(example: Example) -> None:
    first = example.migrated()
    faults = check(program(after(first)), Wanted()).faults
    left = [finding.rule for finding in first.findings if finding.severity is not Severity.INFO]
    assert left and set(left) <= {fault.rule for fault in faults}
    assert all(fault.source.path.name == "train.py" and line_of(fault) for fault in faults)


MIXED = """\
import torch
from accel_runtime import Accelerator
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(split_batches=True)
loader = DataLoader(TensorDataset(torch.randn(99, 8), torch.randint(8, (99,))), batch_size=32)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for x, y in loader:
    optimizer.zero_grad()
    out = model(x)
    loss = torch.nn.functional.cross_entropy(torch.nn.functional.dropout(out), y) + out.pow(2).sum()
    accelerator.backward(loss)
    optimizer.step()
"""


def test_it_has_its_own_page_and_can_be_ignored(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files({"train.py": MIXED})
    assert main(["check", "train.py", "--format", "json", "--jobs", "1"]) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["rule"], finding["line"], finding["docs"], finding["fix"]) == (
        "mixed-reduction",
        14,
        "docs/rules/mixed-reduction.md",
        None,
    )
    assert main(["check", "train.py", "--select", "mixed-reduction", "--jobs", "1"]) == 1
    assert main(["check", "train.py", "--ignore", "mixed-reduction", "--jobs", "1"]) == 0
    files({"train.py": MIXED.replace("backward(loss)", "backward(loss)  # accel: ignore[mixed-reduction]")})
    assert main(["check", "train.py", "--jobs", "1"]) == 0


def test_sarif_links_the_page(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files({"train.py": MIXED})
    main(["check", "train.py", "--format", "sarif", "--jobs", "1"])
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert "(docs/rules/mixed-reduction.md)" in run["tool"]["driver"]["rules"][0]["help"]["markdown"]


def test_batches_of_each_process_promise_nothing_of_the_kind(files: Files) -> None:
    files({"train.py": MIXED.replace("split_batches=True", "")})
    assert main(["check", "train.py", "--jobs", "1"]) == 0


@pytest.mark.parametrize(
    "text",
    ["import torch\n\nprint(torch.ones(1))\n", MIXED.replace("accel_runtime", "lightning")],
    ids=["plain", "another library"],
)
def test_a_script_that_is_not_accelerated_yet_is_told_so(
    text: str, files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    files({"train.py": text})
    assert main(["check", "train.py", "--jobs", "1"]) == 3
    first, last = capsys.readouterr().out.splitlines()
    assert (
        first.startswith("train.py: not checked: nothing in it is accelerated yet (it uses neither")
        and "accel-migrate" in first
    )
    assert last == "nothing was checked: nothing is accelerated yet"
