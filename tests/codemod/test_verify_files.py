"""`accel verify` compares what text files, pickles and checkpoints hold as it compares printed lines: within the noise floor."""

from __future__ import annotations

import io
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from accel_migrate.verify.figures import OfOriginal
from accel_migrate.verify.files import compare_on_disk
from accel_migrate.verify.hooks import compare
from accel_migrate.verify.job import Run
from accel_migrate.verify.report import Comparison


class InThisProcess:
    """In place of the process that imports torch once."""

    def call(self, function: str, **arguments: Any) -> Any:
        return getattr(compare, function.rpartition(":")[2])(**arguments)


def compared(folder: Path, name: str, texts: dict[str, bytes], floor: float = 0.0) -> Comparison:
    """The file as each run writes it: "original", "control", "repeat" (default: as the original) and "migrated"; `floor` is that of the losses."""
    runs = {}
    for run, text in {"repeat": texts["original"], **texts}.items():
        (folder / run).mkdir()
        (folder / run / name).write_bytes(text)
        runs[run] = Run(folder / run, 0, (), "", (name,), 1.0)
    result = Comparison(2, floors={"loss": floor})
    original = OfOriginal(runs["original"], runs["control"], lambda: runs["repeat"])
    compare_on_disk(InThisProcess(), original, runs["migrated"], 1e-4, result)  # type: ignore[arg-type]
    return result


def table(*losses: float, seconds: float = 1.0) -> bytes:
    return "\n".join(["epoch,loss,seconds", *(f"{epoch},{loss:.6f},{seconds * 1.37:.2f}" for epoch, loss in enumerate(losses))]).encode()


@pytest.mark.parametrize(
    ("control", "got", "floor", "found"),
    [
        (table(0.5, 0.25), table(0.5, 0.25), 0.0, 0),
        (table(0.5, 0.25), table(0.5, 0.2501), 0.0, 1),
        (table(0.5, 0.25), table(0.5, 0.2501), 1e-4, 0),
        (table(0.5, 0.26), table(0.5, 0.29), 0.0, 0),
        (table(0.5, 0.26), table(0.5, 0.5), 0.0, 1),
        (table(0.5, 0.25), table(0.5), 0.0, 1),
    ],
    ids=["equal", "beyond the tolerance", "floor of the losses", "floor of the figure", "beyond that", "a line too few"],
)
def test_a_table_of_figures(tmp_path: Path, control: bytes, got: bytes, floor: float, found: int) -> None:
    result = compared(tmp_path, "log.csv", {"original": table(0.5, 0.25), "control": control, "migrated": got}, floor)
    assert len(result.differences) == found, result.differences


def test_numbers_that_a_repeated_run_has_otherwise_are_left_out_and_named(tmp_path: Path) -> None:
    tables = {"original": table(0.5, 0.25), "control": table(0.5, 0.25, seconds=1.01), "repeat": table(0.5, 0.25, seconds=0.98), "migrated": table(0.5, 0.25, seconds=4)}
    result = compared(tmp_path, "log.csv", tables)
    assert result.differences == []
    assert result.unverified == ["what 2 lines of log.csv say, which depends on more than the training (line 2 is one)"]


def test_json_and_the_folder_of_a_run(tmp_path: Path) -> None:
    texts = {run: json.dumps({"loss": loss, "saved": str(tmp_path / run / "model.pt")}).encode() for run, loss in (("original", 0.5), ("control", 0.5), ("migrated", 0.50001))}
    assert compared(tmp_path, "history.json", {**texts, "repeat": texts["control"].replace(b"control", b"repeat")}).differences == []


def test_a_pickled_history_is_compared_by_its_figures(tmp_path: Path) -> None:
    def history(loss: float, right: int, seconds: float) -> bytes:
        return pickle.dumps({"loss": [0.5, loss], "right": [90, right], "seconds": seconds})

    texts = {"original": history(0.25, 95, 3.0), "control": history(0.2502, 96, 3.0), "repeat": history(0.25, 95, 3.1), "migrated": history(0.251, 94, 9.0)}
    result = compared(tmp_path, "history.pkl", texts)
    assert result.differences == []
    assert result.unverified == ["1 values in history.pkl, which depend on more than the training (seconds is one)"]
    (tmp_path / "b").mkdir()
    assert len(compared(tmp_path / "b", "history.pkl", {**texts, "migrated": history(0.251, 190, 9.0)}).differences) == 1


def test_bytes_of_unknown_formats_differ_unless_a_repeated_run_differs_too(tmp_path: Path) -> None:
    texts = {"original": b"\xff\x00", "control": b"\xff\x00", "migrated": b"\xff\x02"}
    assert len(compared(tmp_path, "figure.xyz", texts).differences) == 1
    (tmp_path / "b").mkdir()
    result = compared(tmp_path / "b", "figure.xyz", {**texts, "repeat": b"\xff\x01"})
    assert (result.differences, len(result.unverified)) == ([], 1)


def test_a_checkpoint_is_known_by_its_content_where_its_name_has_no_ending(tmp_path: Path) -> None:
    def saved(weight: float, when: str) -> bytes:
        file = io.BytesIO()
        torch.save({"weight": torch.full((100,), weight), "when": when}, file)
        return file.getvalue()

    texts = {"original": saved(0.5, "a"), "control": saved(0.5, "a"), "migrated": saved(0.5000001, "a much longer one"), "repeat": saved(0.5, "b")}
    result = compared(tmp_path, "model_20300101", texts)
    assert result.differences == []
    assert result.unverified == ["1 values in model_20300101, which depend on more than the training (when is one)"]
