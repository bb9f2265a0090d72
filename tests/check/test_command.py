"""The command line of `accel check`: exit statuses, formats, fixes, settings and comments."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from accel_migrate.command.umbrella import main
from codemod.conftest import Files

RIGHT = "from accelerate import Accelerator\n\naccelerator = Accelerator()\naccelerator.save_state('out')\n"
WRONG = "from accelerate import Accelerator\n\naccelerator = Accelerator()\nif accelerator.is_main_process:\n    accelerator.save_state('out')\n"
PLAIN = "import torch\n\nprint(torch.ones(1))\n"
RULE = "collective-in-rank-guard"


def check(*argv: str) -> int:
    return main(["check", "--no-color", "--jobs", "1", *argv])


@pytest.mark.parametrize(
    ("argv", "status"),
    [
        (["right.py"], 0), (["wrong.py"], 1), (["wrong.py", "right.py", "plain.py"], 1), (["missing.py"], 2), ([], 2), (["wrong.py", "--select", "no-such"], 2),
        (["plain.py"], 3), (["plain.py", "--allow-nothing"], 0), (["wrong.py", "--ignore", RULE], 0), (["wrong.py", "--select", RULE], 1), (["--list-rules"], 0),
        (["--help"], 0), (["wrong.py", "--diff", "--format", "json"], 2),
    ],
)  # fmt: skip
def test_exit_status(files: Files, argv: list[str], status: int) -> None:
    files({"right.py": RIGHT, "wrong.py": WRONG, "plain.py": PLAIN})
    assert check(*argv) == status


def test_text_names_place_rule_and_what_to_do(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files({"train.py": WRONG})
    check("train.py")
    first, advice, last = capsys.readouterr().out.splitlines()
    assert first.startswith(
        f"train.py:5: error: {RULE}: `accelerator.save_state()` is reached by some processes only (`if accelerator.is_main_process`)"
    )
    assert advice.startswith("    call")
    assert last == "1 error in 1 program; 1 can be mended with --fix"


def test_fix_writes_in_place_and_leaves_nothing(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    folder = files({"train.py": WRONG})
    assert check("train.py", "--fix") == 0
    assert (folder / "train.py").read_text() == RIGHT
    assert "Wrote train.py\nnothing wrong in 1 program; 1 mended" in capsys.readouterr().out


def test_diff_writes_nothing(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    folder = files({"train.py": WRONG})
    check("train.py", "--diff")
    assert (folder / "train.py").read_text() == WRONG
    assert "-if accelerator.is_main_process:" in capsys.readouterr().out


def test_unsafe_fixes_are_asked_for(files: Files) -> None:
    text = "import torch\nfrom accelerate import Accelerator\n\naccelerator = Accelerator()\nnet = accelerator.prepare(torch.nn.Linear(1, 1))\ntorch.save({}, 'a.pt')\n"
    folder = files({"train.py": text})
    assert check("train.py", "--fix") == 1
    assert (folder / "train.py").read_text() == text
    assert check("train.py", "--unsafe-fixes") == 0
    assert "if accelerator.is_main_process:\n    torch.save({}, 'a.pt')\n" in (folder / "train.py").read_text()


def test_json_has_place_rule_severity_and_fix(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files({"train.py": WRONG, "plain.py": PLAIN})
    check("train.py", "plain.py", "--format", "json")
    document = json.loads(capsys.readouterr().out)
    (finding,) = document["findings"]
    assert (
        finding["path"],
        finding["line"],
        finding["column"],
        finding["rule"],
        finding["severity"],
        finding["fix"],
    ) == ("train.py", 5, 5, RULE, "error", "safe")
    assert [program["checked"] for program in document["programs"]] == [True, False]
    assert document["summary"] == {"error": 1, "warning": 0, "info": 0}


def test_sarif_names_the_linter_and_its_pages(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files({"train.py": WRONG})
    check("train.py", "--format", "sarif")
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    driver = run["tool"]["driver"]
    assert (driver["name"], [rule["id"] for rule in driver["rules"]]) == ("accel-check", [RULE])
    assert f"(docs/checks/{RULE}.md)" in driver["rules"][0]["help"]["markdown"]
    assert [result["level"] for result in run["results"]] == ["error"]


def test_github_shows_it_beside_the_line(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files({"train.py": WRONG})
    check("train.py", "--format", "github")
    assert capsys.readouterr().out.startswith(
        f"::error file=train.py,line=5,endLine=5,col=5,endColumn=34,title={RULE}::"
    )


@pytest.mark.parametrize("comment", ["# accel: ignore", f"# accel: ignore[{RULE}]"])
def test_a_comment_keeps_a_rule_off_its_line(files: Files, comment: str) -> None:
    files({"train.py": WRONG.replace("('out')", f"('out')  {comment}")})
    assert check("train.py") == 0


def test_settings_have_a_table_of_their_own(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files(
        {
            "train.py": WRONG,
            "pyproject.toml": f'[tool.accel-check]\nignore = ["{RULE}"]\n[tool.accel-migrate]\nunsafe = true\n',
        }
    )
    assert check("train.py") == 0
    files({"pyproject.toml": "[tool.accel-check]\nunsafe = true\n"})
    assert check("train.py") == 2
    assert "has no key 'unsafe'; allowed: select, ignore" in capsys.readouterr().err


def test_a_module_of_several_programs_is_reported_once(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    shared = "def save(accelerator):\n    if accelerator.is_main_process:\n        accelerator.save_state('out')\n"
    script = "import torch.optim\nfrom accelerate import Accelerator\nfrom shared import save\n\nsave(Accelerator())\n"
    files({"shared.py": shared, "a.py": script, "b.py": script})
    assert check("a.py", "b.py") == 1
    assert "1 error in 2 programs" in capsys.readouterr().out


def test_a_notebook_is_reported_by_cells(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    folder: Path = files({})
    cells = [
        {
            "cell_type": "code",
            "metadata": {},
            "outputs": [],
            "execution_count": None,
            "source": WRONG.splitlines(keepends=True),
        }
    ]
    (folder / "train.ipynb").write_text(
        json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    )
    assert check("train.ipynb") == 1
    assert f"train.ipynb:cell 1:5: error: {RULE}" in capsys.readouterr().out


def test_comments_for_the_linter_are_none_of_the_codemod(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files({"train.py": WRONG.replace("('out')", f"('out')  # accel: ignore[{RULE}]")})
    main(["migrate", "train.py"])
    assert "unknown rule" not in capsys.readouterr().out
