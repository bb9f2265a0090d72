"""The comparison itself: it must see what is wrong, and only that."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from accel_migrate.verify.hooks.saved import compare_files, compare_leaves
from accel_migrate.verify.job import Job, Run
from accel_migrate.verify.printed import compare_lines
from accel_migrate.verify.warm import ForkingRunner
from accel_runtime.checkpoint.tensor_files import write_tensors
from e2e.compare import compare_runs

FLAT = Job(Path(__file__).parent / "golden" / "flat", "before.py")


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        ("loss 0.1234", "loss 0.1235"),
        ("loss 812.3456", "loss 812.3999"),
        ("lr 1.944e-02", "lr 1.945e-02"),
        ("mean  0.000", "mean -0.000"),
        ("took 3.2 s", "took 9.1 s"),
        ("loss nan", "loss nan"),
    ],
    ids=["last digit", "relative", "exponent", "width of the column", "ignored", "both not a number"],
)
def test_equal_lines(expected: str, got: str) -> None:
    assert compare_lines([expected], [got], ignore=[r"took [\d.]+ s"]).reasons == []


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        ("loss 0.1234", "loss 0.1238"),
        ("right 57/101", "right 58/101"),
        ("epoch 1", "step 1"),
        ("loss 0.5", "loss nan"),
        ("loss 0.12345678", "loss 0.12355678"),
    ],
    ids=["number", "count", "text", "not a number", "printed in full"],
)
def test_different_lines(expected: str, got: str) -> None:
    assert len(compare_lines([expected], [got]).reasons) == 1


def test_a_line_printed_by_every_process_is_named() -> None:
    reasons = compare_lines(["epoch 0"], ["epoch 0", "epoch 0"]).reasons
    assert reasons == ["1 lines became 2, 1 too many like 'epoch #'"]


def test_weights_are_measured_against_the_noise_floor() -> None:
    weights = {name: torch.ones(100) for name in ("a", "b", "c")}
    control = weights | {"c": weights["c"] * 1.01}
    assert compare_leaves(weights, weights | {"c": weights["c"] * 1.05}, control).reasons == []
    assert compare_leaves(weights, weights | {"b": weights["b"] * 1.001}, control).reasons == [
        "b: differs by 0.001 of its norm, the noise floor is 0"
    ]


def test_a_difference_that_counts_as_none_is_told_all_the_same() -> None:
    weights = {"a": torch.ones(4), "b": torch.zeros(4)}
    assert compare_leaves(weights, weights, {}).largest == 0
    told = compare_leaves(weights, {"a": weights["a"] - 6e-8, "b": weights["b"] + 3e-8}, {})
    assert told.reasons == [] and told.largest == pytest.approx(6e-8, rel=0.1) and told.largest_at == "a"


def test_a_control_run_that_trained_differently_sets_no_floor() -> None:
    weights = {name: torch.ones(100) for name in ("a", "b", "c")}
    control = {name: weight * 1.5 for name, weight in weights.items()}
    assert len(compare_leaves(weights, {name: weight * 1.1 for name, weight in weights.items()}, control).reasons) == 3


def test_keys_kinds_and_shapes_count() -> None:
    reasons = compare_leaves(
        {"a": 1, "b": 2, "c": torch.ones(2)}, {"a": 1.0, "module.b": 2, "c": torch.ones(3)}, {}
    ).reasons
    assert reasons[:2] == ["key b is missing", "key module.b is new"]
    assert sorted(reasons[2:]) == [
        "a: int became float",
        "c: torch.float32 of (2,) became torch.float32 of (3,)",
    ]


def test_a_run_equals_itself_and_not_another_learning_rate(runner: ForkingRunner, tmp_path: Path) -> None:
    original = runner.run(FLAT)
    assert original.written == ("flat.pt",)
    assert compare_runs(original, runner.run(FLAT)).same
    text = (FLAT.folder / FLAT.script).read_text()
    (tmp_path / "before.py").write_text(text.replace("lr=1e-2", "lr=1.1e-2"))
    verdict = compare_runs(original, runner.run(Job(tmp_path, "before.py")))
    assert any(reason.startswith("line 1") for reason in verdict.reasons)
    assert any(reason.startswith("flat.pt: 0.weight: differs") for reason in verdict.reasons)


def test_weights_of_safetensors_files(tmp_path: Path) -> None:
    weights = {"w": torch.arange(6.0).reshape(2, 3), "n": torch.tensor(3)}
    one, same, other = (tmp_path / f"{name}.safetensors" for name in ("one", "same", "other"))
    for file, by in ((one, 1.0), (same, 1.0), (other, 1.01)):
        write_tensors(file, {name: value * by if name == "w" else value for name, value in weights.items()})
    assert compare_files(one, same, None).reasons == []
    assert [reason[:10] for reason in compare_files(one, other, None).reasons] == ["w: differs"]


def test_processes_talk_and_a_failing_one_ends_the_others(runner: ForkingRunner, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import sys, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "ranks = torch.tensor(dist.get_rank())\n"
        "dist.all_reduce(ranks)\n"
        "print(ranks.item())\n"
        "if dist.get_rank() == 1 and sys.argv[1:]: sys.exit('the cause')\n"
        "if sys.argv[1:]: dist.barrier()\n"
    )
    assert runner.run(Job(tmp_path, "script.py"), 3).lines == ("3", "3", "3")
    failed = runner.run(Job(tmp_path, "script.py", ("fail",)), 2, timeout=30)
    assert not failed.succeeded and not failed.timed_out
    assert failed.errors.endswith("the cause\n")


def test_a_run_that_hangs_is_ended_and_says_where(runner: ForkingRunner, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import time\nprint('started', flush=True)\ntime.sleep(60)\n")
    run: Run = runner.run(Job(tmp_path, "script.py"), timeout=0.5)
    assert run.timed_out and run.lines == ("started",)
    assert "script.py" in run.errors and "line 3" in run.errors
