"""`accel verify` compares what text files, pickles and checkpoints hold as it compares printed lines: within the noise floor."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from accel_migrate.verify.files import compare_on_disk
from accel_migrate.verify.hooks import compare
from accel_migrate.verify.job import Run
from accel_migrate.verify.report import Comparison


class InThisProcess:
    """In place of the process that imports torch once."""

    def call(self, function: str, **arguments: Any) -> Any:
        return getattr(compare, function.rpartition(":")[2])(**arguments)


def compared(folder: Path, name: str, texts: tuple[bytes, bytes, bytes], floor: float = 0.0) -> Comparison:
    """The original's file, the control run's and the migrated script's; `floor` is that of the losses."""
    runs = []
    for run, text in zip(("original", "control", "migrated"), texts, strict=True):
        (folder / run).mkdir()
        (folder / run / name).write_bytes(text)
        runs.append(Run(folder / run, 0, (), "", (name,), 1.0))
    result = Comparison(2, floors={"loss": floor})
    compare_on_disk(InThisProcess(), *runs, 1e-4, result)  # type: ignore[arg-type]
    return result


def table(*losses: float, seconds: float = 1.0) -> bytes:
    return "\n".join(["epoch,loss,seconds", *(f"{epoch},{loss:.6f},{seconds * 1.37:.2f}" for epoch, loss in enumerate(losses))]).encode()


@pytest.mark.parametrize(
    ("control", "got", "floor", "found"),
    [
        (table(0.5, 0.25), table(0.5, 0.25), 0.0, 0),
        (table(0.5, 0.25), table(0.5, 0.2501, seconds=3), 0.0, 2),
        (table(0.5, 0.25, seconds=2), table(0.5, 0.2501, seconds=3), 1e-4, 0),
        (table(0.5, 0.26), table(0.5, 0.29), 0.0, 0),
        (table(0.5, 0.25), table(0.5), 0.0, 1),
    ],
    ids=["equal", "beyond the tolerance", "floor of the losses", "not reproduced by the control run", "a line too few"],
)
def test_a_table_of_figures(tmp_path: Path, control: bytes, got: bytes, floor: float, found: int) -> None:
    result = compared(tmp_path, "log.csv", (table(0.5, 0.25), control, got), floor)
    assert len(result.differences) == found, result.differences


def test_numbers_that_were_left_out_are_named(tmp_path: Path) -> None:
    result = compared(tmp_path, "log.csv", (table(0.5, 0.25), table(0.5, 0.3), table(0.5, 0.4)))
    assert result.unverified == ["numbers in 1 lines of log.csv, which depend on more than the training (line 3 is one)"]


def test_json_and_the_folder_of_a_run(tmp_path: Path) -> None:
    texts = [json.dumps({"loss": loss, "saved": str(tmp_path / run / "model.pt")}) for loss, run in ((0.5, "original"), (0.5, "control"), (0.50001, "migrated"))]
    assert compared(tmp_path, "history.json", tuple(text.encode() for text in texts)).differences == []  # type: ignore[arg-type]


def test_a_pickled_history_is_compared_by_its_figures(tmp_path: Path) -> None:
    one, again, other = (pickle.dumps({"loss": [0.5, loss], "when": when}) for loss, when in ((0.25, "10:01"), (0.2502, "10:02"), (0.2510, "10:03")))
    result = compared(tmp_path, "history.pkl", (one, again, other))
    assert result.differences == []
    assert result.unverified == ["1 values in history.pkl, which depend on more than the training (when is one)"]


def test_bytes_of_unknown_formats_differ_unless_the_control_run_differs_too(tmp_path: Path) -> None:
    result = compared(tmp_path, "figure.xyz", (b"\xff\x00", b"\xff\x01", b"\xff\x02"))
    assert (result.differences, len(result.unverified)) == ([], 1)
    (tmp_path / "b").mkdir()
    assert compared(tmp_path / "b", "figure.xyz", (b"\xff\x00", b"\xff\x00", b"\xff\x02")).differences != []
