"""SARIF, GitHub workflow commands and Markdown: what programs and pull requests are told."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from accel_migrate.command import cli
from accel_migrate.edits import Severity
from accel_migrate.project import load_project
from accel_migrate.report.as_github import as_github
from accel_migrate.report.as_markdown import as_markdown
from accel_migrate.report.outcome import Item, Outcome, Place, Run, outcome_of
from accel_migrate.result import Options
from codemod.conftest import Files
from codemod.fake import fake_migrate

TRAIN = "import torch\n\nloss.backward()\nprint(accuracy)  # by hand\nx = 1  # info\n"


def sarif(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    """The only run in what the command prints."""
    cli.main([*argv, "--format", "sarif"], migrate=fake_migrate)
    log = json.loads(capsys.readouterr().out)
    assert (log["version"], len(log["runs"])) == ("2.1.0", 1)
    return log["runs"][0]


def test_sarif_places_findings_by_characters(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files({"my src/train.py": TRAIN.replace("print(", 's = "é"; print(')})
    run = sarif(capsys, "my src/train.py")
    _, warning, note = run["results"]
    assert (warning["ruleId"], warning["level"], note["level"]) == ("metric", "warning", "note")
    assert warning["message"] == {"text": "is of one process. gather it"}
    physical = warning["locations"][0]["physicalLocation"]
    assert physical["artifactLocation"] == {"uri": "my%20src/train.py", "uriBaseId": "%SRCROOT%"}
    assert physical["region"] == {"startLine": 4, "startColumn": 10, "endLine": 4, "endColumn": 25}
    assert run["columnKind"] == "unicodeCodePoints"
    assert run["invocations"] == [{"executionSuccessful": True, "toolExecutionNotifications": []}]


def test_sarif_names_each_rule_once_and_links_its_page(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files({"train.py": TRAIN})
    run = sarif(capsys, "train.py", "--check")
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["accelerator", "backward", "metric"]
    assert "(docs/rules/backward.md)" in rules[1]["help"]["markdown"]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"])
    assert [result["ruleId"] for result in run["results"]].count("backward") == 1


def test_sarif_has_edits_only_in_a_check(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files({"train.py": TRAIN})
    assert {result["ruleId"] for result in sarif(capsys, "train.py")["results"]} == {"metric"}
    (edit,) = [result for result in sarif(capsys, "train.py", "--check")["results"] if result["ruleId"] == "accelerator"]
    assert "region" not in edit["locations"][0]["physicalLocation"]


def test_fingerprints_stay_when_lines_move_and_differ_where_lines_are_alike(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    def fingerprints(text: str) -> list[str]:
        files({"train.py": text})
        return [result["partialFingerprints"]["accelMigrate/v1"] for result in sarif(capsys, "train.py")["results"]]

    twice = TRAIN.replace("print(accuracy)  # by hand\n", "print(accuracy)  # by hand\n" * 2)
    assert fingerprints(TRAIN) == fingerprints("import os\n\n" + TRAIN)
    assert len(set(fingerprints(twice))) == 3
    assert set(fingerprints(TRAIN)) < set(fingerprints(twice))


def test_sarif_tells_errors_and_refusals(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files({"plot.py": "x = 1\n"})
    (invocation,) = sarif(capsys, "plot.py", "missing.py")["invocations"]
    assert not invocation["executionSuccessful"]
    assert [(n["level"], n["message"]["text"]) for n in invocation["toolExecutionNotifications"]] == [
        ("error", "missing.py: no such file"),
        ("note", "plot.py: no training loop found"),
    ]


def test_sarif_of_shared_files_has_no_result_twice(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files({"a.py": "import c\n", "b.py": "import c\n", "c.py": TRAIN})
    assert len(sarif(capsys, "a.py", "b.py")["results"]) == 2


def test_places_in_notebooks_are_cells(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    cells = [{"cell_type": "code", "source": "import torch\n"}, {"cell_type": "code", "source": TRAIN}]
    files({"nb.ipynb": json.dumps({"cells": cells})})
    (warning, _) = sarif(capsys, "nb.ipynb")["results"]
    (location,) = warning["locations"]
    assert "region" not in location["physicalLocation"]
    assert location["logicalLocations"] == [{"fullyQualifiedName": "cell 2, line 4"}]
    cli.main(["nb.ipynb", "--format", "github"], migrate=fake_migrate)
    assert "::warning file=nb.ipynb,line=1,title=metric::cell 2, line 4: is of one process%0A" in capsys.readouterr().out


def outcome(files: Files, text: str = TRAIN) -> Outcome:
    files({"train.py": text})
    return outcome_of(fake_migrate(load_project(Path("train.py")), Options()), "accel launch train.py")


def test_github_commands_are_escaped(files: Files) -> None:
    place = Place("a,b:c.py", 3, 5, 3, 9)
    finding = Item(place, "metric", "50% of it\n::error::no", "see: this, that", Severity.ERROR)
    run = Run([replace(outcome(files), findings=[finding])], ["50%"])
    command, error, total = as_github(run, with_edits=False)
    assert command == (
        "::error file=a%2Cb%3Ac.py,line=3,endLine=3,col=5,endColumn=9,title=metric"
        "::50%25 of it%0A::error::no%0Asee: this, that"
    )
    assert error == "::error title=accel-migrate::50%25"
    assert total == "2 edits, 0 unsafe held back, 1 by hand"


def test_github_commands_have_a_level_for_each_severity(files: Files) -> None:
    lines = list(as_github(Run([outcome(files)]), with_edits=True))
    assert [line.split()[0] for line in lines[:-1]] == ["::warning", "::notice", "::notice", "::notice"]
    assert "::notice file=train.py,line=1,title=accelerator::would be changed: makes the accelerator" in lines
    assert len(list(as_github(Run([outcome(files)]), with_edits=False))) == 3


def test_markdown_is_a_summary_with_the_diff_folded(files: Files) -> None:
    text = "\n".join(as_markdown(Run([outcome(files)])))
    assert "| `train.py` | changed | 2 | 1 |" in text
    assert "- `train.py:4` **metric**: is of one process. gather it" in text
    assert re.search(r"<details><summary>Changes of train.py</summary>\n\n- .*\n\n```diff\n--- train.py", text, re.DOTALL)
    assert text.endswith("Once written, launch it: `accel launch train.py`")


def test_markdown_keeps_text_text(files: Files) -> None:
    finding = Item(Place("a|b.py", 1), "metric", "`x * y` is not a_b_c <b> *so* | what", "", Severity.WARNING)
    lines = list(as_markdown(Run([replace(outcome(files), findings=[finding])])))
    assert r"- `a\|b.py:1` **metric**: `x * y` is not a\_b\_c \<b\> \*so\* \| what" in lines
    fenced = "\n".join(as_markdown(Run([outcome(files, TRAIN + 's = "```"\n')])))
    assert "````diff" in fenced


def test_a_diff_has_no_other_format(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files({"train.py": TRAIN})
    assert cli.main(["train.py", "--diff", "--format", "sarif"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
