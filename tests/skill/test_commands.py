"""The commands on the skill's pages run, and its complete example comes out as the page says."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from accel_migrate.command.umbrella import main
from accel_migrate.command.verify_arguments import parse_verify_arguments
from codemod.conftest import Files, files
from skill.blocks import SKILL, Block, blocks, pages

__all__ = ["files"]

CONVERT = SKILL / "scripts" / "convert.py"
ROOT = SKILL.parents[1]


def example() -> tuple[str, str]:
    """The script of the complete example, and the diff below it."""
    (diff,) = [block.code for block in blocks("SKILL.md") if block.language == "diff"]
    lines = diff.splitlines(keepends=True)[3:]
    return "".join(line[1:] if line.strip() else line for line in lines if not line.startswith("+")), diff


def commands() -> list[tuple[str, str]]:
    """Page and line of every command, each line once."""
    found: dict[str, str] = {}
    for page in pages():
        for block in blocks(page):
            for line in block.code.splitlines() if block.language == "sh" else ():
                found.setdefault(line.partition("#")[0].strip(), block.page)
    return [(page, line) for line, page in found.items()]


def test_there_are_commands() -> None:
    assert len(commands()) > 20


@pytest.mark.parametrize(("page", "line"), commands(), ids=lambda text: text)
def test_commands_run(
    page: str, line: str, files: Files, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script, _ = example()
    monkeypatch.setenv("NO_COLOR", "1")
    files(
        {
            "train.py": script,
            "migrated/train.py": script,
            "error.log": "OSError: libGL.so.1: cannot open shared object file",
        }
    )
    program, *arguments = shlex.split(line)
    assert program in ("accel-migrate", "accel"), line
    if program == "accel-migrate":
        assert main(["migrate", *arguments]) == 0
    elif arguments[0] == "verify":
        assert parse_verify_arguments(arguments[1:]).original == "train.py"  # it runs below, once
    elif arguments[0] == "launch":
        assert main(["launch", "--dry-run", *arguments[1:]]) == 0
    else:
        main(["migrate", "migrated/train.py", "--write"])
        Path("accel.yaml").write_text("num_processes: 2\n") if arguments == ["config", "check"] else None
        assert main(arguments) in ((0, 1) if arguments[0] == "doctor" else (0,)), capsys.readouterr().err


def test_the_diff_is_what_the_tool_prints(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    script, diff = example()
    files({"train.py": script})
    assert main(["migrate", "train.py", "--no-color"]) == 0
    printed = capsys.readouterr().out
    assert re.sub(r" +$", "", printed, flags=re.MULTILINE).startswith(diff)
    said = re.search(r"with `(\d+ edits[^`]+)`:\n\n```diff", (SKILL / "SKILL.md").read_text())
    assert said is not None and printed.rstrip().endswith(said[1])


def test_one_call_migrates_checks_verifies_and_reports(files: Files) -> None:
    folder = files({"train.py": example()[0]})
    done = convert(folder, "train.py", "--output", "migrated")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    form = (SKILL / "assets" / "report.md").read_text().splitlines()
    assert lines[:3] == [
        "## train.py on several processes",
        "- Result: migrated/train.py, 17 edits; left by hand: 0",
        "- Check: nothing wrong",
    ]
    assert re.match(r"- Proof: `accel verify train.py migrated/train.py --processes 1,2`: same on 1 and 2 processes, 14 steps, losses within \d", lines[3]), lines[3]
    assert lines[-1] == "- Launch: accel launch --num_processes N migrated/train.py"
    assert [kind(line) for line in form if kind(line) != "- Decisions"] == list(dict.fromkeys(map(kind, lines)))
    (report,) = [block.code for block in blocks("SKILL.md") if block.language == "markdown"]
    assert [kind(line) for line in report.splitlines()] == [kind(line) for line in form]


def kind(line: str) -> str:
    return "##" if line.startswith("##") else line.partition(":")[0]


def test_what_cannot_be_migrated_has_a_reason_and_a_status_of_its_own(files: Files) -> None:
    text = "import torch\nfrom transformers import Trainer\n\nTrainer(None).train()\n"
    done = convert(files({"train.py": text}), "train.py", "--output", "migrated", "--json")
    assert done.returncode == 3
    assert "Trainer" in json.loads(done.stdout)["reason"]


def test_what_is_left_by_hand_is_named_and_counted(files: Files) -> None:
    script = (
        example()[0]
        .replace("F.cross_entropy(outputs, y)", "criterion(outputs, y)")
        .replace("import torch\n", "import torch\nfrom somewhere import criterion\n", 1)
    )
    done = convert(files({"train.py": script}), "train.py", "--output", "migrated", "--no-verify")
    assert done.returncode == 1
    assert (
        re.search(r"left by hand: \d\n  - train.py:\d+: unknown-reduction", done.stdout)
        and "- Proof: none" in done.stdout
    )


def convert(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The bundled script, run as an assistant runs it."""
    path = os.pathsep.join(str(ROOT / part) for part in ("codemod", "runtime"))
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, str(CONVERT), *arguments], cwd=folder, env=env, capture_output=True, text=True, timeout=600
    )


def test_blocks_of_every_language_are_tested(files: Files) -> None:
    files({"train.py": ""})
    tested = {"python", "sh", "diff", "markdown"}
    others = [block for page in pages() for block in blocks(page) if block.language not in tested]
    assert [(block.page, block.language) for block in others] == [("launch", "slurm")]
    assert_launches(others[0])


def assert_launches(block: Block) -> None:
    """The launch in a batch script is one that the launcher accepts."""
    (line,) = re.findall(r"exec accel (launch .*)\"", block.code)
    arguments = shlex.split(line.replace(r"\$SLURM_NODEID", "0").replace("$head", "10.0.0.1"))
    assert main([arguments[0], "--dry-run", *arguments[1:]]) == 0
