"""What the report says, what the diff looks like, what a comment suppresses, what the gate rejects."""

from __future__ import annotations

import ast
import shutil
import subprocess
from pathlib import Path

import pytest

from accel_migrate.command.discover import looks_like_training
from accel_migrate.edits import AddImport, Edit, Finding, RenameParameter, ReplaceExpression, WrapStatements
from accel_migrate.gate import objection
from accel_migrate.places import header_lines, line_of
from accel_migrate.project import Project, load_project
from accel_migrate.report.diff import Paint, coloured, unified
from accel_migrate.report.launch_line import launch_line
from accel_migrate.report.outcome import outcome_of
from accel_migrate.report.text import count, report_lines
from accel_migrate.result import FileChange, Options, Result
from accel_migrate.source import Source
from accel_migrate.suppress import is_suppressed, named_rules, suppressions
from codemod.conftest import Files
from codemod.fake import fake_migrate

TRAIN = """\
import torch
x = 0  # info
model.to(device)  # unsafe
loss.backward()
print(accuracy)  # by hand
loss.backward()
"""

REPORT = """\
train.py
  accelerator: makes the accelerator
  backward: averages over processes (lines 4, 6)

Held back as unsafe (--unsafe applies them):
  train.py:3: device: moves

Left to do by hand:
  train.py:5: metric: is of one process
      gather it

Worth knowing:
  train.py:2: metric: is of one process
      gather it
  global batch statistics cost one reduction per layer

Once written, launch it:
  accel launch --num_processes 2 train.py ARGS"""


def migrated(files: Files, text: str = TRAIN) -> Result:
    files({"train.py": text})
    return fake_migrate(load_project(Path("train.py")), Options())


def test_report_says_what_was_done_what_is_left_and_how_to_go_on(files: Files) -> None:
    result = migrated(files)
    launch = launch_line(result.project, "accel_runtime", Path("train.py"))
    assert "\n".join(report_lines(outcome_of(result, launch), Paint())) == REPORT
    assert str(count([outcome_of(result)])) == "3 edits, 1 unsafe held back, 1 by hand"


def test_a_shared_file_counts_once(files: Files) -> None:
    root = files({"a.py": "import c\n", "b.py": "import c\n", "c.py": "loss.backward()\n"})
    results = [outcome_of(fake_migrate(load_project(root / name), Options())) for name in ("a.py", "b.py")]
    assert str(count(results)) == "2 edits, 0 unsafe held back, 0 by hand"
    assert str(count([])) == "0 edits, 0 unsafe held back, 0 by hand"


@pytest.mark.parametrize(
    ("result_status", "reason", "expected"),
    [
        ("refused", "no training loop found", "train.py: nothing was migrated: no training loop found"),
        ("unchanged", "already accelerated", "train.py: already accelerated"),
        ("unchanged", "", "train.py: there is nothing to change"),
    ],
)
def test_why_nothing_changed(result_status: str, reason: str, expected: str, files: Files) -> None:
    files({"train.py": ""})
    result = Result(load_project(Path("train.py")), result_status, reason)  # type: ignore[arg-type]
    assert list(report_lines(outcome_of(result), Paint())) == [expected]


def test_launch_line_fits_target_and_layout(files: Files) -> None:
    files({"my train.py": "", "pkg/__init__.py": "", "pkg/train.py": "from . import data\n", "pkg/data.py": ""})
    plain, module = load_project(Path("my train.py")), load_project(Path("pkg/train.py"))
    assert launch_line(plain, "accelerate", Path("my train.py")).startswith("accelerate launch ")
    assert launch_line(plain, "accel_runtime", Path("my train.py")).endswith(" 2 'my train.py' ARGS")
    assert launch_line(module, "accel_runtime", Path("pkg/train.py")) == "accel launch --num_processes 2 -m pkg.train ARGS"
    assert launch_line(module, "accel_runtime", Path("new/pkg/train.py")) == "cd new && accel launch --num_processes 2 -m pkg.train ARGS"


@pytest.mark.skipif(shutil.which("patch") is None, reason="the program `patch` is not installed")
@pytest.mark.parametrize("text", [TRAIN, TRAIN.rstrip("\n"), "\x0c\n" + TRAIN + "s = '''\n--- x\n\x0c'''\n"])
def test_diff_is_a_patch_that_gives_the_result(text: str, files: Files) -> None:
    root = files({"copy.py": text})
    (change,) = migrated(files, text).changes
    patch = "".join(f"{line}\n" for line in unified(change)).replace("train.py", "copy.py")
    subprocess.run(["patch", "-p0", "-s"], input=patch.encode(), cwd=root, check=True, timeout=60)
    assert (root / "copy.py").read_text() == change.after


def test_colours_only_where_wanted(files: Files) -> None:
    (change,) = migrated(files).changes
    plain = list(unified(change))
    assert list(coloured(plain, Paint())) == plain
    colours = list(coloured(plain, Paint(True)))
    assert "\x1b[31m-loss.backward()\x1b[0m" in colours
    assert "\x1b[32m+accelerator.backward(loss)\x1b[0m" in colours


SUPPRESSED = '''\
loss.backward()  # accel: ignore[backward]
loss.backward()  # accel: ignore
loss.backward()  # accel: ignore[seed, save]
loss.backward()  # noqa  #accel:ignore[ seed,backward ]
loss.backward(
    retain_graph=True,  # accel: ignore[backward]
)
text = "# accel: ignore[backward]"; loss.backward()
for batch in loader:  # accel: ignore[backward]
    loss.backward()
'''


def test_comments_keep_rules_off_their_line() -> None:
    source = Source(Path("f.py"), SUPPRESSED)
    table = suppressions(source)
    calls = [node for node in ast.walk(source.tree) if isinstance(node, ast.Call)]
    findings = [Finding(source=source, node=node, rule="backward", message="") for node in calls]
    quiet = {line_of(finding) for finding in findings if is_suppressed(finding, table)}
    assert quiet == {1, 2, 4, 5}
    whole_file = Finding(source=source, node=source.tree, rule="backward", message="")
    assert not is_suppressed(whole_file, table)
    assert suppressions(Source(Path("f.py"), "x = 1\n")) == {}


def test_comments_for_the_whole_file() -> None:
    text = "import torch\n# accel: ignore-file[seed, backward]\nloss.backward()  # accel: ignore[save]\n"
    source = Source(Path("f.py"), text)
    table = suppressions(source)
    nodes = [source.tree, source.tree.body[1]]
    off = [
        rule
        for rule in ("seed", "backward", "save", "prepare")
        if all(is_suppressed(Finding(source=source, node=node, rule=rule, message=""), table) for node in nodes)
    ]
    assert off == ["seed", "backward"]
    assert list(named_rules(source)) == [(0, "backward"), (0, "seed"), (3, "save")]
    assert suppressions(Source(Path("f.py"), "# accel: ignore-file\n")) == {0: frozenset()}
    assert suppressions(Source(Path("f.py"), "# accel: ignore-files\n# accel: ignores\n")) == {}


def test_places_of_edits() -> None:
    source = Source(Path("f.py"), "x = 1\ndef f(\n    a,\n    b,\n):\n    y = 2\n    z = 3\n")
    function = source.tree.body[1]
    assert isinstance(function, ast.FunctionDef)
    assert list(header_lines(function)) == [2, 3, 4, 5]
    edits: list[tuple[Edit, int]] = [
        (WrapStatements(source=source, rule="r", nodes=tuple(function.body), header="if x:"), 6),
        (RenameParameter(source=source, rule="r", parameter=function.args.args[1], name="c"), 4),
        (AddImport(source=source, rule="r", module="m"), 1),
    ]
    assert [line_of(edit) for edit, _ in edits] == [line for _, line in edits]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ("accelerator = 1\n", ""),
        ("x = (\n", "train.py: the rewritten line 1 does not compile: '(' was never closed"),
        ("return 1\n", "train.py: the rewritten line 1 does not compile: 'return' outside function"),
        ("loss.backward()\n", "train.py: a second run would change the result again (accelerator, backward)"),
    ],
)
def test_gate_rejects_what_does_not_compile_or_settle(after: str, expected: str, files: Files) -> None:
    result = migrated(files)
    change = FileChange(result.changes[0].source, after, result.changes[0].edits)

    def again(project: Project) -> Result:
        assert project.entry.text == after
        return fake_migrate(project, Options())

    assert objection(result.project, [change], again) == expected


def test_prefilter() -> None:
    assert looks_like_training(b"import torch\nloss.backward()\n")
    assert looks_like_training(b"from torch import optim\n")
    assert not looks_like_training(b"import torch\nprint(torch.__version__)\n")
    assert not looks_like_training(b"loss.backward()\n")


def test_edits_without_place_have_no_line_in_the_report(files: Files) -> None:
    result = migrated(files)
    (change,) = result.changes
    assert any(isinstance(edit, AddImport) for edit in change.edits)
    assert any(isinstance(edit, ReplaceExpression) for edit in change.edits)
    assert "  accelerator: makes the accelerator" in report_lines(outcome_of(result), Paint())
