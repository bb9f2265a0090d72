"""Notebooks: their cells as one program, written back with everything else byte for byte."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from accel_migrate.command import cli
from accel_migrate.errors import UserError
from accel_migrate.notebook.magics import as_comments, hidden, restored
from accel_migrate.notebook.notebook import read_notebook
from accel_migrate.source import Source
from codemod.conftest import Files

IMPORTS = "%matplotlib inline\n!pip install -q torch\nimport torch\nfrom torch.utils.data import DataLoader, TensorDataset"
MAKE = """\
loader = DataLoader(TensorDataset(torch.randn(9, 4), torch.randn(9, 1)), batch_size=4)
model = torch.nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"""
LOOP = """\
for x, y in loader:
    loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
TRAIN = "def train():\n" + "".join(f"    {line}\n" for line in (MAKE + "\n" + LOOP).splitlines()) + "    return model"
FLAT = ["# A title", IMPORTS, MAKE, "", "model?", "%%time\n" + LOOP, "%%bash\nls | head"]
LAUNCHED = [IMPORTS, TRAIN, "model = train()", "print(model.weight)"]


def document(cells: list[str]) -> dict[str, Any]:
    """A notebook; a cell that starts with `# ` holds text."""
    made = []
    for number, text in enumerate(cells):
        cell: dict[str, Any] = {"cell_type": "markdown" if text.startswith("# ") else "code", "id": f"c{number}", "metadata": {}}
        if cell["cell_type"] == "code":
            output = {"name": "stdout", "output_type": "stream", "text": ["é\n"]}
            cell |= {"execution_count": None, "outputs": [output], "metadata": {"tags": ["parameters"]}}
        made.append({**cell, "source": text.splitlines(keepends=True)})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def text_of(cells: list[str], **style: Any) -> str:
    return json.dumps(document(cells), **{"indent": 1, "ensure_ascii": False, **style}) + "\n"


def sources(path: Path) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(path.read_text())["cells"]]


@pytest.mark.parametrize(
    "style", [{}, {"indent": 4}, {"indent": None}, {"ensure_ascii": True}, {"indent": "\t"}, {"separators": (",", ":"), "indent": None}]
)
def test_only_the_sources_of_changed_cells_change(style: dict[str, Any], files: Files) -> None:
    path = files({"nb.ipynb": text_of(FLAT, **style)}) / "nb.ipynb"
    before = document(FLAT)
    assert cli.main(["nb.ipynb", "--write"]) == 1
    after = json.loads(path.read_text())
    for old, new in zip(before["cells"], after["cells"], strict=True):
        new["source"] = old["source"] = [] if old["source"] != new["source"] else new["source"]
    assert before == after
    new = path.read_text()
    assert cli.main(["nb.ipynb", "--write"]) == 1
    assert path.read_text() == new
    document_again = json.loads(new)
    assert json.dumps(document_again, **{"indent": 1, "ensure_ascii": False, **style}) + "\n" == new


def test_cells_keep_their_magics_and_their_borders(files: Files) -> None:
    path = files({"nb.ipynb": text_of(FLAT)}) / "nb.ipynb"
    cli.main(["nb.ipynb", "--write"])
    title, imports, make, empty, question, loop, shell = sources(path)
    assert [title, empty, question, shell] == [FLAT[0], "", FLAT[4], FLAT[6]]
    assert imports.startswith("%matplotlib inline\n!pip install -q torch\nimport torch\nfrom accel_runtime import Accelerator\n")
    assert make.endswith("model, optimizer, loader = accelerator.prepare(model, optimizer, loader)")
    assert loop.startswith("%%time\nfor x, y in loader:\n")
    assert loop.endswith("optimizer.zero_grad()\n")


def test_the_diff_is_shown_cell_by_cell(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files({"nb.ipynb": text_of(FLAT)})
    cli.main(["nb.ipynb", "--diff"])
    out = capsys.readouterr().out
    assert "--- nb.ipynb:cell 3\n+++ nb.ipynb:cell 3\n@@ -1,3 +1,5 @@\n" in out
    assert "No newline" not in out
    assert '"source"' not in out


def test_reports_name_the_cell(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files({"nb.ipynb": text_of(FLAT), "bad.ipynb": text_of(["x = 1", "# text", "\ny = ("])})
    cli.main(["nb.ipynb", "--check"])
    out = capsys.readouterr().out
    assert "  nb.ipynb:cell 6:4: notebook-processes: " in out
    assert "backward: gradients are averaged over processes, each weighted by its share of the batch (cell 6: line 4)" in out
    cli.main(["nb.ipynb", "--format", "json"])
    (finding,) = json.loads(capsys.readouterr().out)["programs"][0]["findings"]
    assert (finding["cell"], finding["line"], finding["column"]) == (6, 4, 5)
    assert cli.main(["bad.ipynb"]) == 2
    assert capsys.readouterr().err.startswith("error: bad.ipynb:cell 3:2: syntax error: ")


def test_a_function_that_makes_what_it_trains_is_launched(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    path = files({"nb.ipynb": text_of(LAUNCHED)}) / "nb.ipynb"
    assert cli.main(["nb.ipynb", "--write"]) == 0
    imports, train, call, show = sources(path)
    assert "from accel_runtime import Accelerator, notebook_launcher\n" in imports
    assert "    accelerator = Accelerator(split_batches=True)\n" in train
    assert call == "model = notebook_launcher(train, num_processes=2)"
    assert show == LAUNCHED[3]
    assert cli.main(["nb.ipynb", "--write"]) == 0


def test_a_function_of_a_module_is_launched(files: Files) -> None:
    module = "import torch\nfrom torch.utils.data import DataLoader, TensorDataset\n\n\n" + TRAIN + "\n"
    root = files({"nb.ipynb": text_of(["import engine", "model = engine.train()"]), "engine.py": module})
    assert cli.main(["nb.ipynb", "--write"]) == 0
    assert sources(root / "nb.ipynb")[1] == "model = notebook_launcher(engine.train, num_processes=2)"
    assert "accelerator.backward(loss)" in (root / "engine.py").read_text()


def test_a_class_that_trains_when_it_is_made_is_not_launched(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    lines = ("class Trainer:\n    " + TRAIN.replace("train()", "__init__(self, epochs)").replace("\n", "\n    ")).removesuffix("    return model")
    files({"nb.ipynb": text_of([IMPORTS, lines, "Trainer(epochs=3)"])})
    assert cli.main(["nb.ipynb", "--check"]) == 1
    out = capsys.readouterr().out
    assert "notebook-processes" in out
    assert "notebook-launch:" not in out


def test_a_timed_statement_is_python(files: Files) -> None:
    path = files({"nb.ipynb": text_of([IMPORTS, TRAIN, "%time model = train()"])}) / "nb.ipynb"
    assert cli.main(["nb.ipynb", "--output", "train.py"]) == 0
    assert (path.parent / "train.py").read_text().endswith("\n\n\nmodel = train()\n")
    assert cli.main(["nb.ipynb", "--write"]) == 0
    assert sources(path)[2] == "%time model = notebook_launcher(train, num_processes=2)"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("train(3, 0.1)", "notebook_launcher(train, (3, 0.1), num_processes=2)"),
        ("train(3, lr=0.1)", "notebook_launcher(train, (3, 0.1), num_processes=2)"),
        ("train(lr=0.1, epochs=3)", "notebook_launcher(train, (3, 0.1), num_processes=2)"),
        ("train(3)", "notebook_launcher(train, (3,), num_processes=2)"),
        ("train(3, seed=1)", "notebook_launcher(partial(train, seed=1), (3,), num_processes=2)"),
    ],
)
def test_arguments_are_passed_on(call: str, expected: str, files: Files) -> None:
    train = TRAIN.replace("train()", "train(epochs, lr=0.2, *, seed=0)")
    path = files({"nb.ipynb": text_of([IMPORTS, train, f"model = {call}"])}) / "nb.ipynb"
    assert cli.main(["nb.ipynb", "--write"]) == 0
    assert sources(path)[2] == f"model = {expected}"
    assert ("from functools import partial" in sources(path)[0]) == ("partial" in expected)


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        ([IMPORTS, MAKE, LOOP], "the loop stands flat in a cell"),
        ([IMPORTS, MAKE, "def train(model, loader):\n    " + LOOP.replace("\n", "\n    "), "train(model, loader)"], "objects of another cell"),
        ([*LAUNCHED, "for f in [train]:\n    f()", LOOP.replace("loader", "[]")], "training in two places"),
    ],
)
def test_what_cannot_be_launched_trains_on_one_process_and_is_reported(
    cells: list[str], why: str, files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    files({"nb.ipynb": text_of(cells)})
    assert cli.main(["nb.ipynb", "--check"]) == 1
    out = capsys.readouterr().out
    assert "notebook-launch" not in out
    assert "accel-migrate nb.ipynb --output nb.py" in out


def test_accelerate_returns_nothing_so_a_result_that_is_used_is_not_launched(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    without = TRAIN.removesuffix("    return model")
    files({"used.ipynb": text_of([IMPORTS, without, "model = train()"]), "model.ipynb": text_of([IMPORTS, TRAIN, "train()"])})
    for name in ("used.ipynb", "model.ipynb"):
        cli.main([name, "--check", "--target", "accelerate"])
        out = capsys.readouterr().out
        assert "notebook-launch:" not in out
        assert "call it from a cell that uses nothing it returns (let it save the model)" in out
    files({"not.ipynb": text_of([IMPORTS, without, "train()"])})
    cli.main(["not.ipynb", "--diff", "--target", "accelerate"])
    assert "+notebook_launcher(train, num_processes=2)" in capsys.readouterr().out


def test_what_stays_in_the_launched_process_is_reported(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    train = TRAIN.replace("train()", "train(log)").replace("    return model", "        losses.append(1)\n        log[0] = 2\n    return model")
    files({"nb.ipynb": text_of([IMPORTS, "losses = []\nlog = {}", train, "model = train(log)", "print(losses, log)"])})
    assert cli.main(["nb.ipynb", "--check"]) == 1
    out = capsys.readouterr().out
    assert "what is put into `losses` here stays in the launched process" in out
    assert "what is put into `log` here stays in the launched process" in out


def test_a_script_can_be_made_of_it(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    root = files({"nb.ipynb": text_of([*FLAT, "if model:\n    !ls\nfiles = !ls\ndisplay(files)"])})
    assert cli.main(["nb.ipynb", "--output", "out/train.py"]) == 0
    script = (root / "out/train.py").read_text()
    ast.parse(script)
    assert script.startswith("# %matplotlib inline\n# !pip install -q torch\nimport torch\n")
    assert script.endswith("# %%bash\n# ls | head\n\n\nif model:\n    # !ls\n    pass\n# !ls\nfiles = None\ndisplay(files)\n")
    out = capsys.readouterr().out
    assert "accel launch --num_processes 2 out/train.py ARGS" in out
    assert "nb.ipynb:cell 8:4: a script has no display(): write from IPython.display import display" in out
    assert (root / "nb.ipynb").read_text() == text_of([*FLAT, "if model:\n    !ls\nfiles = !ls\ndisplay(files)"])


def test_a_notebook_is_written_under_the_name_that_is_given(files: Files) -> None:
    root = files({"nb.ipynb": text_of(FLAT)})
    cli.main(["nb.ipynb", "--output", "out/new.ipynb"])
    assert (root / "out" / "new.ipynb").is_file()
    assert "accelerator.backward(loss)" in "".join(sources(root / "out" / "new.ipynb"))


def test_a_script_lies_beside_its_modules(files: Files) -> None:
    root = files({"nb.ipynb": text_of([IMPORTS + "\nimport lib", MAKE, LOOP]), "lib.py": "x = 1\n"})
    assert cli.main(["nb.ipynb", "--output", "train.py"]) == 0
    assert sorted(path.name for path in root.iterdir()) == ["lib.py", "nb.ipynb", "train.py"]
    assert cli.main(["nb.ipynb", "--output", "out/train.py"]) == 0
    assert (root / "out/lib.py").read_text() == "x = 1\n"


@pytest.mark.parametrize("argv", [["train.py"], ["nb.ipynb", "other.ipynb"], ["."]])
def test_only_a_notebook_becomes_a_script(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*argv, "--output", "new.py"]) == 2
    assert "--output new.py turns one notebook into a script" in capsys.readouterr().err


def test_notebooks_are_found_in_folders(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files({"a/nb.ipynb": text_of(FLAT), "a/.ipynb_checkpoints/nb.ipynb": text_of(FLAT), "plot.ipynb": text_of(["x = 1"])})
    cli.main([".", "--check"])
    assert capsys.readouterr().out.count("notebook-processes") == 1


FRAGMENTS = st.sampled_from(
    ["x = 1", "\n", "    ", "%time ", "!ls", "?", "'''", '"', "(", ")", "\\", "#", "%%bash\n", "if x:", "é\u2028", "\x0c", "\r\n", ";", "\0", "\ud800"]
)


@given(cells=st.lists(st.lists(FRAGMENTS, max_size=8).map("".join), max_size=4), ascii_only=st.booleans())
@settings(max_examples=200, deadline=None)
def test_whatever_stands_in_cells_comes_back(cells: list[str], ascii_only: bool) -> None:
    assume(ascii_only or "\ud800" not in "".join(cells))
    data = text_of(cells, ensure_ascii=ascii_only).encode()
    notebook = read_notebook(Path("nb.ipynb"), data)
    assert notebook.encode(notebook.text) == data
    notebook.script(notebook.text)
    source = Source(Path("nb.ipynb"), notebook.text, notebook=notebook)
    if notebook.cells:
        assert source.where(1) == f"nb.ipynb:cell {notebook.cells[0].number}:1"
        assert notebook.place(source.line_count)[0] == notebook.cells[-1].number


MAGICS = [
    "%matplotlib inline",
    "!ls $x | wc",
    "if x:\n    %time f(x)",
    "%time f(x)\n%time   y = (1 + \\\n  2)\n%time\n%timeit f(x)",
    "model.fit??",
    "?model",
    "files = !ls",
    "a, b = %sql select 1",
    "%load_ext \\\n  autoreload",
    "if x:\n    !ls\n",
    "s = '''\n%not magic\n!nor this?\n'''\n!ls",
    "y = (x\n     % 3)\n%time y",
    "from __future__ import annotations\nx = 1",
    "%%time\nx = 1",
    "%%bash\nfor f in *; do echo $f; done",
    "%%writefile a.py\nimport torch\n",
    "x = 1  # what?\n!ls",
    "# only a comment?",
    "",
]


@pytest.mark.parametrize("cell", MAGICS)
def test_magics_are_hidden_and_come_back(cell: str) -> None:
    known: list[str] = []
    text = hidden(cell, known)
    ast.parse(text)
    assert restored(text, known) == cell
    ast.parse(as_comments(text, known))


@pytest.mark.parametrize("cell", ["x = y % 3", "'''\n%x\n'''", "z = [x\n% 3]", "assert a != b", "x = 1 # !ls"])
def test_python_is_left_alone(cell: str) -> None:
    known: list[str] = []
    assert hidden(cell, known) == cell
    assert known == []


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"{", "is not a notebook: "),
        (b"\xff\xfe", "is not a notebook: "),
        (b"[]", "is not a notebook of format 4; convert it first: jupyter nbconvert --to notebook --inplace x.ipynb"),
        (b'{"worksheets": [], "nbformat": 3}', "is not a notebook of format 4"),
        (b'{"cells": [], "metadata": {"kernelspec": {"language": "R"}}}', "is a notebook in R, a Python notebook was expected"),
    ],
)
def test_what_is_no_python_notebook(data: bytes, what: str) -> None:
    with pytest.raises(UserError, match=r"^x\.ipynb: ") as caught:
        read_notebook(Path("x.ipynb"), data)
    assert what in str(caught.value)
    assert "\n" not in str(caught.value)


def test_notebooks_may_wait_at_the_top_level(files: Files) -> None:
    path = files({"nb.ipynb": text_of([*LAUNCHED, "import asyncio\nawait asyncio.sleep(0)"])}) / "nb.ipynb"
    assert cli.main(["nb.ipynb", "--write"]) == 0
    assert sources(path)[4] == "import asyncio\nawait asyncio.sleep(0)"


def test_a_notebook_without_code(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files({"nb.ipynb": text_of(["# text"])})
    assert cli.main(["nb.ipynb"]) == 3
    assert "not a PyTorch training script" in capsys.readouterr().out
