"""`accel new` and `--add`: what they write, and what they refuse."""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import itertools
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from accel_migrate.command import check as checking
from accel_migrate.command import cli, new, new_questions
from accel_migrate.scaffold import catalog, render
from accel_migrate.scaffold.answers import Answers, checked
from accel_migrate.scaffold.writing import write
from runtime.ranks import run_ranks

PLACES = tuple(catalog.places())


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*argv: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    status = new.main(argv)
    captured = capsys.readouterr()
    return status, captured.out + captured.err


@pytest.mark.parametrize("task", catalog.tasks())
def test_every_choice_makes_a_whole_project(task: str) -> None:
    strategies = catalog.tasks()[task].strategies
    for tracker, checkpoints in itertools.product(("none", "csv"), (True, False)):
        strategy = strategies[-1] if checkpoints else strategies[0]
        answers = checked(Answers("digits", task, strategy, "bf16", tracker, checkpoints))
        files = render.project(answers)
        for name in ("train.py", "data.py", "model.py", "config.py", "tests/test_training.py"):
            ast.parse(files[name])
            assert max(map(len, files[name].splitlines())) <= 120, name
        settings = yaml.safe_load(files["config.yaml"])
        classes = [node for node in ast.parse(files["config.py"]).body if isinstance(node, ast.ClassDef)]
        config = next(node for node in classes if node.name == "Config")
        assert list(settings) == [
            ast.unparse(field.target) for field in config.body if isinstance(field, ast.AnnAssign)
        ]
        assert yaml.safe_load(files["accel.yaml"])["mixed_precision"] == "bf16"
        assert ("load_state" in files["train.py"]) == checkpoints


@pytest.mark.parametrize("task", catalog.tasks())
def test_the_linter_finds_nothing(task: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(here, render.project(Answers("digits", task)))
    assert checking.main(["train.py"]) == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "change", "messages"),
    [
        ("epochs: [1", "", ['config.yaml", line 1, column 9']),
        ("epohcs: 1", "", ["unknown: epohcs (did you mean epochs?); missing: epochs, batch_size"]),
        ("nothing", "", ["config.yaml holds no entries"]),
        ("", "seed=[1", ["config.yaml holds no entries"]),
        ("epochs: 1", "seed=[1", ["--set seed=[1: the value is not YAML"]),
        (None, "", ["config.yaml cannot be read", "No such file"]),
    ],
)
def test_wrong_settings_of_a_project_are_named_in_one_line(
    text: str | None, change: str, messages: list[str], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "its_config.py").write_text(render.project(Answers("digits"))["config.py"])
    monkeypatch.syspath_prepend(here)
    monkeypatch.delitem(sys.modules, "its_config", raising=False)
    module = importlib.import_module("its_config")
    if text is not None:
        (here / "config.yaml").write_text(text)
    with pytest.raises(module.ConfigError) as caught:
        module.read_config(Path("config.yaml"), [change] if change else [])
    said = str(caught.value)
    assert all(message in said for message in messages) and "\n" not in said


def _refused(folder: str) -> tuple[object, str]:
    sys.path.insert(0, folder)
    from train import main

    said = io.StringIO()
    with contextlib.redirect_stderr(said), pytest.raises(SystemExit) as stop:
        main(["--output", f"{folder}/runs", "--resume", "nosuch"])
    return stop.value.code, said.getvalue()


def test_a_checkpoint_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    write(tmp_path, render.project(Answers("table", "tabular-regression")))
    ((status, said),) = run_ranks(_refused, 1, str(tmp_path))
    assert status == 2 and "error: Tried to find nosuch" in said and said.count("\n") == 1


def _trained(folder: str) -> dict[str, float]:
    sys.path.insert(0, folder)
    from config import read_config
    from train import train

    return train(read_config(Path(folder, "config.yaml"), ["epochs=1", "dropout=0.0"]), Path(folder, "runs"))


def test_a_project_trains_alike_on_one_process_and_on_two(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    results = []
    for processes in (1, 2):
        folder = tmp_path / f"on-{processes}"
        write(folder, render.project(Answers("table", "tabular-regression", tracker="none")))
        results += run_ranks(_trained, processes, str(folder))
        assert (folder / "runs" / "model" / "model.safetensors").is_file()
    assert results[1] == results[2] == pytest.approx(results[0], rel=1e-4)


def test_the_files_are_written_once(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, text = run("digits", "--yes", "--place", "slurm", capsys=capsys)
    assert status == 0 and "next: cd digits" in text
    assert (here / "digits/slurm/train.sbatch").stat().st_mode & 0o111
    status, text = run("digits", "--yes", capsys=capsys)
    assert status == 2 and "nothing is overwritten" in text
    assert run("work/digits", "--yes", capsys=capsys)[0] == 0 and (here / "work/digits/train.py").is_file()


def test_a_dry_run_writes_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, text = run("digits", "--yes", "--dry-run", "--task", "gan", capsys=capsys)
    assert status == 0 and "digits/train.py  (" in text
    assert not list(here.iterdir())


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["My_Net", "-y"], "my-net would do"),
        (["json", "-y"], "taken by a module"),
        (["test", "-y"], "taken by a module"),
        ([".", "-y"], "a folder of its own, which '.' does not name"),
        (["..", "-y"], "a folder of its own"),
        (["a" * 50, "-y"], "at most 40"),
        (["9lives", "-y"], "beginning with a letter; lives would do"),
        (["net", "-y", "--task", "gam"], "did you mean gan?"),
        (["net", "-y", "--task", "segmentation", "--strategy", "tp"], "does not suit segmentation"),
        (["net", "-y", "--place", "moon"], "'moon' is not one of docker"),
        (["net", "--answers", "missing.yaml"], "missing.yaml"),
        (["--add", "slurm"], "there is no train.py"),
        ([], "give the new project a name"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    argv: list[str], message: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, text = run(*argv, capsys=capsys)
    assert status == 2 and message in text and text.count("\n") == 1
    assert not list(here.iterdir())


def test_answers_from_a_file_and_flags_before_them(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "answers.yaml").write_text("task: gan\nprecision: no\ntracker: none\nplaces: [k8s]\ncheckpoints: false\n")
    status, _ = run("net", "--answers", "answers.yaml", "--tracker", "csv", capsys=capsys)
    text = (here / "net/train.py").read_text()
    assert status == 0 and "Generator" in text and 'log_with="csv"' in text and "load_state" not in text
    assert (here / "net/k8s/job.yaml").is_file()


@pytest.mark.parametrize(
    ("entry", "message"), [("tsak: gan", "did you mean task?"), ("places: 3", "takes a list"), ("- a", "no entries")]
)
def test_a_wrong_entry_of_the_file_is_named(
    entry: str, message: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "answers.yaml").write_text(entry + "\n")
    status, text = run("net", "--answers", "answers.yaml", capsys=capsys)
    assert status == 2 and message in text and not (here / "net").exists()


def test_only_what_is_open_is_asked() -> None:
    asked = []

    def first(question: new_questions.Question) -> object:
        asked.append(question.name)
        return list(question.choices)[:1] if question.several else next(iter(question.choices))

    answers = new_questions.ask_all({"task": "segmentation", "tracker": "none"}, first)
    assert asked == ["strategy", "precision", "checkpoints", "places"]
    assert checked(Answers("net", **answers)).places == PLACES[:1]


def test_adding_to_a_project_takes_its_name(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "train.py").write_text("print()\n")
    (here / "pyproject.toml").write_text('[build-system]\nrequires = []\n[project]\nversion = "1"\nname = "Big.Net"\n')
    assert run("--add", "slurm,docker", capsys=capsys)[0] == 0
    assert "--job-name=big-net" in (here / "slurm/train.sbatch").read_text()
    assert "COPY --chown=trainer pyproject.toml" in (here / "Dockerfile").read_text()
    status, text = run("--add", "slurm", capsys=capsys)
    assert status == 2 and "nothing is overwritten" in text
    files = sorted(render.launch_files(["k8s"], "net", "train.py", ""))
    assert run("--add", "k8s", capsys=capsys)[0] == 0
    assert all(name in run("--add", "k8s", capsys=capsys)[1] for name in files)


def test_a_migrated_script_gets_launch_files_too(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "mine.py").write_text((Path(__file__).parents[2] / "examples/digits/train.py").read_text())
    assert cli.main(["mine.py", "--add", "k8s"]) == 2
    assert "--write or --output" in capsys.readouterr().err
    assert cli.main(["mine.py", "--output", "out", "--add", "k8s"]) == 0
    assert "mine.py" in (here / "out/k8s/run.sh").read_text() and not (here / "k8s").exists()
    assert cli.main(["mine.py", "--write", "--add", "mars"]) == 2
    assert "accel_runtime" not in (here / "mine.py").read_text()


def test_files_of_the_places_can_be_read() -> None:
    files = render.launch_files(PLACES, "net", "train.py", "")
    for name, text in files.items():
        if name.endswith(".yaml"):
            assert yaml.safe_load(text), name
        elif text.startswith("#!"):
            subprocess.run(["bash", "-n"], input=text, text=True, check=True)
