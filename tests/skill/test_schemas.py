"""The published schemas of JSON reports: real reports fit them, and every key of a report is in them."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from accel_migrate.command.umbrella import main
from accel_runtime.doctor.machine import Gpu, Machine
from codemod.conftest import Files, files
from skill.test_commands import example

__all__ = ["files"]

SCHEMAS = Path(__file__).parents[2] / "codemod" / "accel_migrate" / "schemas"
FAULTY = "from accelerate import Accelerator\n\naccelerator = Accelerator()\nif accelerator.is_main_process:\n    accelerator.save_state('out')\nprint('a')\n"
BY_HAND = "import torch\nfrom somewhere import criterion\n"


def strict(schema: Any) -> Any:
    """The schema, which then allows no key that it does not name."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {"additionalProperties": False} if "properties" in schema else {}
    return {**closed, **{key: strict(value) for key, value in schema.items()}}


def fits(name: str, printed: str) -> Any:
    jsonschema = pytest.importorskip("jsonschema")
    schema, document = json.loads((SCHEMAS / f"{name}.json").read_text()), json.loads(printed)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, strict(schema))
    return document


def notebook(text: str) -> str:
    cell = {
        "cell_type": "code",
        "metadata": {},
        "outputs": [],
        "execution_count": None,
        "source": text.splitlines(keepends=True),
    }
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def test_migrate(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    script, _ = example()
    by_hand = BY_HAND + script.replace("F.cross_entropy(outputs, y)", "criterion(outputs, y)")
    files({"a.py": script, "b.py": by_hand, "c.py": "import torch\n", "d.ipynb": notebook(script), "e.py": "def"})
    main(["migrate", "a.py", "b.py", "c.py", "d.ipynb", "e.py", "--format", "json", "--jobs", "1"])
    document = fits("migrate", capsys.readouterr().out)
    assert {program["status"] for program in document["programs"]} == {"changed", "refused"} and document["errors"]
    assert any(program["findings"] for program in document["programs"])


def test_check(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files({"a.py": FAULTY, "b.py": "print(1)\n", "c.ipynb": notebook(FAULTY)})
    main(["check", "a.py", "b.py", "c.ipynb", "--format", "json", "--jobs", "1"])
    assert len(fits("check", capsys.readouterr().out)["findings"]) > 1


def test_verify(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    text = "import torch\n\nmodel = torch.nn.Linear(1, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    step = "for _ in range(3):\n    model(torch.ones(1, 1)).sum().backward()\n    optimizer.step()\n"
    files({"a.py": text + step, "b.py": text + step.replace("ones", "zeros")})
    assert main(["verify", "a.py", "b.py", "--format", "json", "--processes", "1"]) == 1
    assert fits("verify", capsys.readouterr().out)["comparisons"][0]["differences"]


def test_skill(files: Files, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = files({"AGENTS.md": "# Ours\n"})
    monkeypatch.setenv("HOME", str(folder / "home"))
    main(["skill", "list", "--json"])
    fits("skill-list", capsys.readouterr().out)
    main(["skill", "install", "--agent", "trae", "--json"])
    assert fits("skill", capsys.readouterr().out)["steps"]


def test_plan_and_estimate(capsys: pytest.CaptureFixture[str]) -> None:
    for batch in ("64", "70"):
        main(["plan", "--params", "7B", "--batch", batch, "--gpus", "8", "--lr", "1e-4", "--lr-batch", "32", "--json"])
        assert fits("plan", capsys.readouterr().out)["recommended"]
    main(["plan", "--params", "7B", "--batch", "64", "--gpus", "8", "--memory", "1", "--json"])
    assert fits("plan", capsys.readouterr().out)["recommended"] is None
    main(["estimate", "--params", "7B", "--json"])
    assert fits("estimate", capsys.readouterr().out)["bytes"]


def test_env(files: Files, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from accel_runtime.commands import env

    files({"accel.yaml": "num_processes: 2\n"})
    for torch in ({"version": "2.13.0", "file": "torch/__init__.py"}, {"error": "ImportError: no\n"}):
        machine = Machine(
            torch,
            gpus=[Gpu("A", (9, 0), 80)],
            shared_memory=(1 << 30, 1 << 31),
            packages={"numpy": "2.0"},
            environment={"RANK": "0"},
        )
        monkeypatch.setattr(env, "look", lambda machine=machine: machine)
        main(["env", "--json"])
        document = fits("env", capsys.readouterr().out)
        assert document["accel.yaml"] == "num_processes: 2\n" and "gpu 0" in document


def test_the_table_of_test(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from accel_runtime.commands import test

    def launch(line: list[str], folder: str, timeout: float) -> str:
        runs = [{"precision": "no", "loss": 1e-7, "weights": float("nan"), "samples": True}]
        Path(line[-1]).write_text(json.dumps({"processes": 1, "device": "cpu", "runs": runs}))
        return "RuntimeError: it stopped"

    monkeypatch.setattr(test, "_failure", launch)
    assert main(["test", "--cpu", "--json"]) == 1
    assert {(row["precision"], bool(row["wrong"])) for row in fits("test", capsys.readouterr().out)} >= {
        ("no", True),
        ("-", True),
    }


def test_compare(files: Files, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from accel_migrate.command import compare
    from e2e.test_compare_precisions import sample

    class NoRunner(contextlib.nullcontext):  # type: ignore[type-arg]
        def __init__(self, *args: object, **settings: object) -> None:
            super().__init__(self)

        def call(self, function: str) -> int:
            return 0

    files({"train.py": "import accel_runtime\n"})
    monkeypatch.setattr(compare, "compared", lambda *args: sample())
    monkeypatch.setattr(compare, "ForkingRunner", NoRunner)
    assert main(["compare", "train.py", "--format", "json", "--plot", "loss.svg"]) == 1
    document = fits("compare", capsys.readouterr().out)
    assert document["runs"][1]["against_first"]["speed"] == 1.5 and document["runs"][1]["losses"][2] == "nan"
    assert document["plot"] == "loss.svg" and Path("loss.svg").is_file()


def test_every_schema_is_tested_and_documented() -> None:
    names = {path.stem for path in SCHEMAS.glob("*.json")}
    assert names == {"migrate", "check", "verify", "skill", "skill-list", "plan", "estimate", "env", "test", "compare"}
    page = (SCHEMAS.parents[2] / "docs" / "formats.md").read_text()
    assert all(f"schemas/{name}.json" in page for name in names)
