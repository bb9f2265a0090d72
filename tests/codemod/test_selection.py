"""--select and --ignore over rules and over the ids of what they find, on the real pipeline."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from accel_migrate.command import cli
from accel_migrate.result import Options
from accel_migrate.selection import known_rules, unknown_rule
from codemod.conftest import Files
from codemod.memory import migrated

PROGRAM = """\
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(9, 4), torch.randint(2, (9,))), batch_size=4)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    partner = torch.randperm(len(x))
    loss = F.cross_entropy(model(x)[partner], y) + F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
print(loss.item())
"""


def said(**options: frozenset[str]) -> tuple[set[str], set[str]]:
    """The ids of the edits and of the findings."""
    result = migrated(PROGRAM, Options(**options))  # type: ignore[arg-type]
    return {edit.rule for change in result.changes for edit in change.edits}, {f.rule for f in result.findings}


def test_everything_by_default() -> None:
    edits, findings = said()
    assert {"accelerator", "prepare", "backward", "main-process"} <= edits
    assert findings == {"batch-permutation"}


def test_a_selected_rule_brings_what_it_reports_under_other_ids() -> None:
    assert said(select=frozenset({"random-draws"})) == (set(), {"batch-permutation"})
    assert said(select=frozenset({"batch-permutation"})) == (set(), {"batch-permutation"})


def test_what_is_ignored_is_not_said_and_the_rest_stays() -> None:
    edits, findings = said(ignore=frozenset({"batch-permutation", "main-process"}))
    assert "main-process" not in edits
    assert "prepare" in edits
    assert findings == set()


def test_ignore_beats_select() -> None:
    assert said(select=frozenset({"random-draws"}), ignore=frozenset({"batch-permutation"})) == (set(), set())


def test_a_comment_switches_a_finding_off_and_a_wrong_one_is_noted(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PROGRAM.replace("(len(x))", "(len(x))  # accel: ignore[batch-permutation]")
    files({"train.py": "# accel: ignore-file[main-proces]\n" + text})
    assert cli.main(["train.py", "--check"]) == 1
    out = capsys.readouterr().out
    assert "batch-permutation" not in out
    assert "train.py:1: a comment ignores an unknown rule main-proces (did you mean main-process" in out


def test_unknown_rules_come_with_those_that_look_like_them() -> None:
    assert unknown_rule("prepar").startswith("unknown rule prepar (did you mean prepare")
    assert unknown_rule("zzzzzz") == "unknown rule zzzzzz"
    assert {"prepare", "weighted-mean"} <= known_rules().keys()


def test_the_table_of_the_rules_says_what_the_list_says() -> None:
    table = (Path(__file__).parents[2] / "docs" / "rules" / "README.md").read_text()
    rows = dict(re.findall(r"^\| \[([\w-]+)\]\([\w-]+\.md\) \|.*\| (.*) \|$", table, re.MULTILINE))
    assert {name: text.replace("`", "") for name, text in rows.items()} == {name: text.replace("`", "") for name, text in known_rules().items()}
