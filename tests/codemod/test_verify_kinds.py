"""The parts of `accel verify` that tell kinds of differences apart."""

from __future__ import annotations

import json
from array import array
from dataclasses import replace
from pathlib import Path

import pytest

from accel_migrate.verify.calls import compare_calls, reasons_of_calls
from accel_migrate.verify.errors import reasons_of_errors
from accel_migrate.verify.evaluated import reason_in_samples
from accel_migrate.verify.hooks.packing import packed, unpack_numbers, unpack_rows
from accel_migrate.verify.job import Run
from accel_migrate.verify.jobs import job_for
from accel_migrate.verify.merged import as_one
from accel_migrate.verify.own_batches import times_as_large
from accel_migrate.verify.places import named_line, spot
from accel_migrate.verify.records import Pass, Record, Step
from accel_migrate.verify.varying import Spread, Varying

STEP = Step(optimizer=0, loss=1.0, backwards=1, rates=(0.1,), gradients=(3.0, 4.0), weights=(1.0, 2.0))
RUN = Run(Path("/nowhere"), 0, (), "", (), 1.0)


def reading(*batches: tuple[int, ...], trains: bool = True, **changes: object) -> Record:
    return replace(Record([STEP], [Pass(0, list(batches), trains=trains, ended=True)]), **changes)


def test_a_batch_size_that_counts_per_process_is_seen_in_the_first_batches() -> None:
    original = reading((0, 1), (2, 3))
    assert times_as_large(original, [reading((0, 1)), reading((2, 3))]) == 2
    assert times_as_large(original, [reading((0,), (2,)), reading((1,), (3,))]) == 1
    assert times_as_large(original, [reading((0, 1), (2, 3)), reading((0, 1), (2, 3))]) == 1
    assert times_as_large(reading((7,)), [reading((7,)), reading((7,))]) == 1, "a process without a sample borrows one"


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([reading((0, 1), (2,), trains=False)] * 2, "the loader of the evaluation is not prepared"),
        ([reading((0, 1), trains=False), reading((2, 0), trains=False)], "1 samples are read twice"),
        ([reading((0, 1), trains=False, parts={0: 5}), reading((2,), trains=False, parts={0: 6})], "each process holds other samples"),
        ([reading((0, 1), trains=False, gathers=False), reading((2,), trains=False, gathers=False)], "nothing is gathered"),
        ([reading((0, 1), trains=False), reading((2,), trains=False)], ""),
        ([reading((0, 1), (2,), trains=False, first_evaluated=(1, 8))] * 2, ""),
    ],
    ids=["whole set", "padding", "other splits", "local", "shared out", "cut after it is read"],
)
def test_why_figures_of_an_evaluation_differ(records: list[Record], said: str) -> None:
    reason = reason_in_samples(reading((0, 1), (2,), trains=False), records)
    assert said in reason and bool(said) == bool(reason)


def test_a_batch_that_is_read_whole_to_be_cut_is_not_read_twice() -> None:
    original = reading((0, 1), (2, 3), trains=False)
    assert reason_in_samples(original, [reading((0, 1), (2,), trains=False), reading((0, 1), (3,), trains=False)]) == ""
    filled = [reading((0, 1), (2, 0), trains=False), reading((0, 1), (3,), trains=False)]
    assert "1 samples are read twice" in reason_in_samples(original, filled)


def test_a_call_that_only_one_process_makes_and_one_that_loses_something() -> None:
    record = Record(calls={"save_state": ["train.py:7", "train.py:7"]}, faults=[("it restores nothing", "train.py:3")])
    found = [(d.kind, d.text) for d in compare_calls(RUN, [record, Record()])]
    assert found == [
        ("calls", "save_state is not called by all: process 0 2 times, process 1 0 times (train.py:7)"),
        ("fault", "train.py:3 is wrong on any number of processes"),
    ]
    assert list(reasons_of_calls(RUN, [record, Record()]))[-1] == "it restores nothing"
    assert list(compare_calls(RUN, [Record(calls={"save_state": ["a.py:1"]})] * 2)) == []


def test_parameters_without_a_gradient_are_named(tmp_path: Path) -> None:
    text = "RuntimeError: Expected to have finished reduction in the prior iteration before ...\nParameters which did not receive grad for rank {}: {}\n"
    for rank, names in enumerate(["head.weight, head.bias", "tail.weight"]):
        (tmp_path / f"rank{rank}.err").write_text(text.format(rank, names))
    run = replace(RUN, streams=tmp_path)
    assert "process 0: head.weight, head.bias; process 1: tail.weight" in next(reasons_of_errors(run, 2))
    assert next(reasons_of_errors(run, 1)).startswith("head.weight, head.bias get no gradient")


def test_an_original_on_several_processes_counts_as_one() -> None:
    records = [Record([replace(STEP, loss=loss)], [Pass(0, [rows], trains=True, ended=True)]) for loss, rows in ((1.0, (0, 1)), (3.0, (2, 3)))]
    merged = as_one(records)
    assert merged.steps[0].loss == 2.0
    assert merged.passes[0].batches == [(0, 1, 2, 3)]


def test_numbers_that_a_second_run_prints_otherwise_are_left_out() -> None:
    lines = ["epoch 1 cost 0.25 loss 0.5", "epoch 2 cost 0.75 loss 0.4"]
    varying = Varying(lines, ["epoch 1 cost 0.31 loss 0.5", "epoch 2 cost 0.75 loss 0.4"], 1e-4)
    assert len(varying) == 1
    others = ["epoch 1 cost 0.9 loss 0.5", "epoch 2 cost 0.1 loss 0.4"]
    masked = ["epoch 1 cost <varies> loss 0.5", "epoch 2 cost <varies> loss 0.4"]
    assert varying.without(lines, others) == (masked, masked)


def test_a_line_that_a_second_run_words_otherwise_is_left_out() -> None:
    varying = Varying(["run brave-fox", "loss 0.5"], ["run shy-owl", "loss 0.5"], 1e-4)
    assert (len(varying), varying.first) == (1, 0)
    assert varying.without(["run brave-fox", "loss 0.5"], ["run mad-hen", "loss 0.6"]) == (["<varies>", "loss 0.5"], ["<varies>", "loss 0.6"])


def test_a_count_that_flips_in_one_line_may_flip_in_another_but_not_double() -> None:
    lines = [f"epoch {n} right {50 + n}" for n in range(10)]
    spread = Spread(lines, ["epoch 0 right 51", *lines[1:]])
    one, other = spread.without(lines, [*lines[:4], "epoch 4 right 53", "epoch 5 right 110", *lines[6:]])
    assert [a == b for a, b in zip(one, other, strict=True)] == [True] * 5 + [False] + [True] * 4


def test_records_are_packed_to_the_last_bit() -> None:
    step, batch, keys = json.loads(packed([{"step": 0, "norms": array("d", [0.1, -1.0])}, {"batch": True, "rows": [3, 5]}, {"rows": ["a"]}]))
    assert unpack_numbers(step["norms"]) == (0.1, -1.0)
    assert unpack_rows(batch["rows"]) == (3, 5)
    assert len(unpack_rows(keys["rows"])) == 1


def test_a_notebook_runs_as_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = [{"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": text} for text in ("%matplotlib inline\nx = 1", "print(x)")]
    document = {"nbformat": 4, "nbformat_minor": 4, "metadata": {"language_info": {"name": "python"}}, "cells": cells}
    (tmp_path / "train.ipynb").write_text(json.dumps(document))
    monkeypatch.chdir(tmp_path)
    job = job_for(Path("train.ipynb"), [])
    assert (job.script, job.shown) == ("train_ipynb.py", "train.ipynb")
    compile(job.changed["train_ipynb.py"], job.script, "exec")
    (tmp_path / job.script).write_text(job.changed[job.script])
    line = job.changed[job.script].splitlines().index("print(x)") + 1
    assert spot(tmp_path, job.script, line) == "train.ipynb:cell 2:1"
    assert named_line(tmp_path / job.script, line) == "line cell 2:1"


@pytest.mark.parametrize(("text", "starts"), [("mp.spawn(main, nprocs=2)", True), ("notebook_launcher(train)", True), ("p = Process(target=main)", False), ("print('spawn')", False)])
def test_scripts_that_start_their_processes(tmp_path: Path, text: str, starts: bool) -> None:
    (tmp_path / "train.py").write_text(text)
    assert job_for(tmp_path / "train.py", []).starts_processes is starts
