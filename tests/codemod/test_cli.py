"""The command line: exit codes, what is written, and one line for whatever goes wrong."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from accel_migrate import __version__
from accel_migrate.command import cli, umbrella
from accel_migrate.project import Project
from accel_migrate.result import Options, Result
from codemod.conftest import Files
from codemod.fake import fake_migrate

TRAIN = "import torch\n\nloss.backward()\n"
AFTER = "import accel_runtime\nimport torch\n\naccelerator.backward(loss)\n"
BY_HAND = TRAIN + "print(accuracy)  # by hand\n"
CODEMOD = str(Path(cli.__file__).parents[2])


def run(*argv: str) -> int:
    return cli.main(list(argv), migrate=fake_migrate)


def start(*argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "accel_migrate", *argv]
    return subprocess.run(
        command, env={**os.environ, "PYTHONPATH": CODEMOD, **env}, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize(
    ("text", "flags", "expected"),
    [
        pytest.param(TRAIN, [], 0, id="done, nothing left"),
        pytest.param(BY_HAND, [], 1, id="something left by hand"),
        pytest.param(TRAIN + "x = 1  # info\n", [], 0, id="information is nothing to do"),
        pytest.param(TRAIN, ["--check"], 1, id="check, would change"),
        pytest.param(AFTER, ["--check"], 0, id="check, would not change"),
        pytest.param(AFTER, [], 0, id="already accelerated"),
        pytest.param("x = 1\n", [], 3, id="no training"),
        pytest.param("", [], 3, id="empty file"),
        pytest.param("x = 1\n", ["--check"], 3, id="check, no training"),
        pytest.param("x = 1\n", ["--check", "--allow-nothing"], 0, id="no training, and that is fine"),
        pytest.param(TRAIN, ["--check", "--allow-nothing"], 1, id="check, would change, nothing allowed"),
        pytest.param("x = (\n", [], 2, id="syntax error"),
        pytest.param(TRAIN, ["--write", "--output", "out"], 2, id="write and output"),
        pytest.param(TRAIN, ["--check", "--write"], 2, id="check and write"),
        pytest.param(TRAIN, ["--format", "xml"], 2, id="unknown format"),
        pytest.param(TRAIN, ["--nonsense"], 2, id="unknown flag"),
        pytest.param(TRAIN, ["missing.py"], 2, id="one file of two is missing"),
    ],
)
def test_exit_status(
    text: str, flags: list[str], expected: int, files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    root = files({"train.py": text})
    assert run("train.py", *flags) == expected
    assert run(*flags, "train.py") == expected
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    if expected == 2:
        assert set(captured.err.strip().split("\n")) == {captured.err.strip().split("\n")[0]}
    assert (root / "train.py").read_text() == text
    assert [path.name for path in root.iterdir()] == ["train.py"]


def test_bad_input_writes_nothing_and_says_why(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    root = files({"old.py": "print 'x'\n"})
    assert run("old.py", "--write") == 2
    assert "old.py:1: is Python 2 (a print statement)" in capsys.readouterr().err
    assert (root / "old.py").read_text() == "print 'x'\n"


def test_default_prints_diff_and_report_and_writes_nothing(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    root = files({"train.py": BY_HAND})
    assert run("train.py") == 1
    lines = capsys.readouterr().out.split("\n")
    assert lines[:2] == ["--- train.py", "+++ train.py"]
    assert "Nothing was written: add --write (in place) or --output DIR" in lines
    assert lines[-2] == "2 edits, 0 unsafe held back, 1 by hand"
    assert (root / "train.py").read_text() == BY_HAND


def test_write_is_in_place_and_settled(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    root = files({"train.py": TRAIN})
    assert run("--write", "train.py") == 0
    assert (root / "train.py").read_text() == AFTER
    out = capsys.readouterr().out
    assert "Wrote train.py" in out
    assert "+++" not in out
    assert run("--write", "train.py") == 0
    assert capsys.readouterr().out == "train.py: already accelerated\n\n0 edits, 0 unsafe held back, 0 by hand\n"
    assert (root / "train.py").read_text() == AFTER


def test_output_writes_the_whole_program_elsewhere(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    before = {"app/train.py": "import torch, engine, lib.data\n", "app/engine.py": TRAIN, "app/lib/data.py": "x = 1\n"}
    root = files(before)
    assert run("app/train.py", "--output", "out/new") == 0
    assert (root / "out/new/engine.py").read_text() == AFTER
    assert (root / "out/new/train.py").read_text() == before["app/train.py"]
    assert (root / "out/new/lib/data.py").read_text() == before["app/lib/data.py"]
    assert all((root / name).read_text() == text for name, text in before.items())
    assert "accel launch --num_processes 2 out/new/train.py ARGS" in capsys.readouterr().out


@pytest.mark.parametrize("folder", [".", "train.py"])
def test_output_does_not_replace_the_source(folder: str, files: Files) -> None:
    root = files({"train.py": TRAIN})
    assert run("train.py", "--output", folder) == 2
    assert (root / "train.py").read_text() == TRAIN


def test_a_folder_is_searched_for_programs(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    root = files({"a/train.py": TRAIN + "import engine\n", "a/engine.py": TRAIN, "a/b/gan.py": TRAIN, "plot.py": ""})
    assert run(".", "--write") == 0
    assert capsys.readouterr().out.endswith("6 edits, 0 unsafe held back, 0 by hand\n")
    assert (root / "a/engine.py").read_text() == (root / "a/b/gan.py").read_text() == AFTER


def test_a_folder_without_training_is_refused(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files({"sub/plot.py": "x = 1\n"})
    assert run("sub") == 3
    assert "sub: no Python file there looks like PyTorch training" in capsys.readouterr().out


def test_programs_which_need_one_file_differently_are_not_written(files: Files) -> None:
    root = files({"a.py": TRAIN + "import c\n", "b.py": TRAIN + "import c\n", "c.py": TRAIN})

    def differing(project: Project, options: Options) -> Result:
        result = fake_migrate(project, options)
        for change in result.changes:
            object.__setattr__(change, "after", f"# {project.entry.path}\n{change.after}")
        return result

    assert cli.main(["a.py", "b.py", "--write"], migrate=differing) == 2
    assert (root / "a.py").read_text() == TRAIN + "import c\n"


def test_diff_only_is_a_patch(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files({"train.py": TRAIN})
    assert run("train.py", "--diff") == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("--- train.py\n+++ train.py\n@@")
    assert captured.out.endswith("+accelerator.backward(loss)\n")
    assert captured.err == "2 edits, 0 unsafe held back, 0 by hand\n"
    files({"plot.py": ""})
    assert run("plot.py", "--diff") == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("plot.py: nothing was migrated: no training loop found\n")


def test_json(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files({"train.py": BY_HAND + "x = 1  # unsafe\n"})
    assert run("train.py", "missing.py", "--format", "json") == 2
    document = json.loads(capsys.readouterr().out)
    assert document["summary"] == {"edits": 2, "held_back": 1, "by_hand": 1}
    assert document["errors"] == ["missing.py: no such file"]
    (program,) = document["programs"]
    assert program["status"] == "changed"
    assert program["launch"] == "accel launch --num_processes 2 train.py ARGS"
    assert program["findings"][0] == {
        "path": "train.py",
        "line": 4,
        "column": 1,
        "rule": "metric",
        "severity": "warning",
        "message": "is of one process",
        "advice": "gather it",
    }
    assert [edit["line"] for edit in program["files"][0]["edits"]] == [3, None]
    assert program["held_back"][0]["line"] == 5


def test_explain_prints_the_facts(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files({"train.py": TRAIN})
    assert run("train.py", "--explain", "--target", "accelerate") == 0
    assert capsys.readouterr().out == "model: net\ntarget: accelerate\n"


def test_settings_file_is_read_and_flags_win(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    root = files({"sub/train.py": TRAIN, "pyproject.toml": "[tool.accel-migrate]\ntarget = 'accelerate'\nunsafe = true\n"})
    run("sub/train.py", "--explain")
    run("sub/train.py", "--explain", "--target", "accel_runtime")
    assert capsys.readouterr().out == "model: net\ntarget: accelerate\nmodel: net\ntarget: accel_runtime\n"
    (root / "sub" / "pyproject.toml").write_text("[tool.other]\n")
    run("sub/train.py", "--explain")
    assert "target: accelerate" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("table", "what"),
    [
        ("[tool.accel-migrate]\ncolour = 1", "has no key 'colour'; allowed: select, ignore, target, checkpoint, unsafe"),
        ("[tool.accel-migrate]\ntarget = 'ddp'", "target = 'ddp': must be one of accel_runtime, accelerate"),
        (
            "[tool.accel-migrate]\nignore = ['prepar']",
            "[tool.accel-migrate] ignore: unknown rule prepar (did you mean prepare",
        ),
        ("[tool.accel-migrate]\nselect = 'x'", "select = 'x': must be a list of rule ids"),
        ("[tool.accel-migrate]\nunsafe = 1", "unsafe = 1: must be true or false"),
        ("[tool]\naccel-migrate = 1", "must be a table, not int"),
        ("[tool.accel-migrate", "is not valid TOML"),
    ],
)
def test_wrong_settings_are_one_clear_line(
    table: str, what: str, files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    files({"train.py": TRAIN, "pyproject.toml": table})
    assert run("train.py", "--write") == 2
    err = capsys.readouterr().err
    assert what in err
    assert err.count("\n") == 1


def test_rules_are_listed_selected_and_checked(
    files: Files, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("command.run", "command.options", "selection"):
        monkeypatch.setattr(f"accel_migrate.{module}.known_rules", lambda: {"seed": "seeds", "backward": "gradients"})
    files({"train.py": TRAIN})
    seen: list[Options] = []

    def spy(project: Project, options: Options) -> Result:
        seen.append(options)
        return fake_migrate(project, options)

    assert cli.main(["--list-rules"]) == 0
    assert capsys.readouterr().out == "backward  gradients\nseed      seeds\n"
    assert cli.main(["train.py", "--select", "seed,backward", "--ignore", "seed", "--ignore", "backward"], migrate=spy) == 0
    assert seen[0].select == seen[0].ignore == {"seed", "backward"}
    assert cli.main(["train.py", "--select", "sneed"], migrate=spy) == 2
    assert capsys.readouterr().err == (
        "accel-migrate: error: --select: unknown rule sneed (did you mean seed?); accel-migrate --list-rules lists them\n"
    )


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (KeyError("x"), "bad.py: was left alone: internal error: KeyError: 'x' (in test_cli.py:"),
        (RecursionError("deep"), "bad.py: the program is too deeply nested"),
        (MemoryError("a\nb"), "bad.py: was left alone: internal error: MemoryError: a b (in "),
    ],
)
def test_a_bug_is_one_line_and_other_programs_go_on(
    error: Exception, what: str, files: Files, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = files({"bad.py": TRAIN, "train.py": TRAIN})

    def broken(project: Project, options: Options) -> Result:
        if project.entry.module == "bad":
            raise error
        return fake_migrate(project, options)

    assert cli.main(["bad.py", "train.py", "--write"], migrate=broken) == 2
    err = capsys.readouterr().err
    assert what in err
    assert err.count("\n") == 1
    assert (root / "bad.py").read_text() == TRAIN
    assert (root / "train.py").read_text() == AFTER
    if not isinstance(error, RecursionError):
        monkeypatch.setenv("ACCEL_MIGRATE_DEBUG", "1")
        with pytest.raises(type(error)):
            cli.main(["bad.py"], migrate=broken)


def test_help_imports_nothing_slow(files: Files) -> None:
    slow = ("libcst", "ast", "torch", "dataclasses", "tokenize", "typing", "inspect")
    code = f"import sys; from accel_migrate.command.cli import main; main(['--help']); assert not {{*{slow}}} & {{*sys.modules}}"
    env = {"PYTHONPATH": CODEMOD}
    done = subprocess.run([sys.executable, "-S", "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert "exit status:" in done.stdout


def test_version_and_module_entry_point() -> None:
    done = start("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"accel-migrate {__version__}\n", "")
    assert start().returncode == 2


def test_a_reader_that_stops_early_is_no_error(files: Files) -> None:
    root = files({"train.py": TRAIN * 2000})
    code = (
        "import sys; from codemod.fake import fake_migrate; from accel_migrate.command.cli import main;"
        "sys.exit(main(['train.py'], migrate=fake_migrate))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([CODEMOD, str(Path(__file__).parents[1])])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=60)
    assert err == b""


def test_output_that_the_terminal_cannot_show_is_escaped(files: Files) -> None:
    files({"train.py": "x = (  # \u2192\n"})
    done = start("train.py", "\u2192.py", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 2
    assert "\\u2192.py: no such file" in done.stderr


@pytest.mark.parametrize(("argv", "status"), [(["--help"], 0), ([], 2), (["--version"], 0), (["fly"], 2)])
def test_umbrella(argv: list[str], status: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert umbrella.main(argv) == status
    captured = capsys.readouterr()
    assert bool(captured.err) == (status == 2)


def test_umbrella_names_unknown_commands(capsys: pytest.CaptureFixture[str]) -> None:
    umbrella.main(["fly"])
    known = ", ".join(umbrella.COMMANDS)
    assert capsys.readouterr().err == f"accel: error: no command 'fly'; the commands are {known} (see accel --help)\n"


def test_umbrella_migrates(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files({})
    assert umbrella.main(["migrate", "missing.py"]) == 2
    assert umbrella.main(["migrate", "--bad"]) == 2
    err = capsys.readouterr().err
    assert "missing.py: no such file" in err
    assert "accel migrate: error: " in err


def test_umbrella_launches(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[list[str]] = []
    module = SimpleNamespace(main=lambda argv: seen.append(argv))
    monkeypatch.setattr(importlib, "import_module", lambda name: module)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert umbrella.main(["launch", "--num_processes", "2", "train.py"]) == 0
    assert seen == [["--num_processes", "2", "train.py"]]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert umbrella.main(["launch", "train.py"]) == 2
    assert capsys.readouterr().err == (
        "accel launch: error: needs torch; install it with: pip install 'accel-migrate[runtime]'\n"
    )


def test_a_script_given_as_a_link_is_migrated_where_it_is(files: Files) -> None:
    root = files({"real/train.py": TRAIN + "import engine\n", "real/engine.py": TRAIN})
    (root / "link.py").symlink_to("real/train.py")
    assert run("link.py", "--output", "out") == 0
    assert sorted(path.name for path in (root / "out").iterdir()) == ["engine.py", "link.py"]
    assert run("link.py", "--write") == 0
    assert (root / "link.py").is_symlink()
    assert (root / "real/train.py").read_text().startswith("import accel_runtime\n")
    assert (root / "real/engine.py").read_text() == AFTER
