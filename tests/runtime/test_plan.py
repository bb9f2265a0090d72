"""`accel plan`: batches that add up, learning rates of the papers, and the simplest strategy that fits."""

from __future__ import annotations

import json
import math

import pytest

from accel_runtime.commands import plan
from accel_runtime.estimate.memory import Job
from accel_runtime.estimate.planning import as_transformer, choose, rules, splits
from accel_runtime.estimate.size import of_count


@pytest.mark.parametrize(("batch", "processes"), [(256, 8), (250, 8), (7, 3), (8, 8), (96, 1)])
def test_every_split_makes_up_the_batch(batch, processes):
    found = splits(batch, processes)
    assert found[0].accumulation == 1
    for split in found:
        micro = batch // split.accumulation
        assert micro * split.accumulation == batch and micro >= processes
        assert split.per_process == math.ceil(micro / processes)
        assert split.even == (split.per_process * processes == micro)


def test_rules_are_those_of_their_sources():
    adam, sgd = rules(8.0, "adamw"), rules(8.0, "sgd-momentum")
    assert (adam[0].name, adam[0].factor) == ("square root", math.sqrt(8))
    assert "-> 0.2, 0.992, eps x 0.354" in adam[0].applies  # 1 - 8 (1 - beta)
    assert (sgd[0].name, sgd[0].factor) == ("linear", 8.0)
    assert [rule.factor for rule in rules(1.0, "adamw")] == [1.0]


@pytest.mark.parametrize(("count", "layers", "hidden"), [("6.6e9", 32, 4096), ("13e9", 40, 5120), ("65e9", 80, 8192)])
def test_a_number_of_parameters_is_taken_as_a_transformer_like_those_there_are(count, layers, hidden):
    size = as_transformer(of_count(count))
    assert size.layers == pytest.approx(layers, rel=0.2) and size.hidden == pytest.approx(hidden, rel=0.1)


def test_the_simplest_that_fits_is_chosen():
    small, large = (Job(as_transformer(of_count(count)), 8, batch=64, length=2048) for count in ("100M", "7B"))
    first, second = choose(small, "mixed", 80), choose(large, "mixed", 80)
    assert first and (first.strategy, first.split.accumulation) == ("data parallel", 1)
    assert second and second.strategy.startswith("FSDP") and "--use_fsdp" in second.options
    assert all(one.gib <= 72 and one.split.processes == 8 for one in (first, second))
    assert choose(Job(as_transformer(of_count("700B")), 8, batch=64, length=2048), "mixed", 80) is None


def test_the_command_prints_a_launch(capsys):
    assert plan.main(["--batch", "256", "--gpus", "8", "--params", "350M", "--lr", "3e-4", "--lr_batch", "64"]) == 0
    text = capsys.readouterr().out
    assert "accel launch --num_processes 8 --mixed_precision bf16 train.py" in text
    assert "learning rate 0.0006  (square root" in text


def test_sequences_that_fit_only_in_parts(capsys):
    assert plan.main(["--batch", "8", "--gpus", "8", "--params", "7B", "--length", "262144"]) == 1
    text = capsys.readouterr().out
    assert "unless 4 processes share each sequence" in text
    assert "--parallelism_config_cp_size 4 --parallelism_config_dp_shard_size 2 --mixed_precision bf16 train.py" in text


def test_everything_as_json(capsys):
    assert plan.main(["--batch", "8", "--gpus", "8", "--params", "1e12", "--json"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert facts["recommended"] is None and facts["splits"] == [
        {"per_process": 1, "processes": 8, "accumulation": 1, "even": True}
    ]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--batch", "4", "--params", "1e9"], "no sample for each"),
        (["--batch", "8"], "give a MODEL or --params"),
        (["--batch", "8", "--params", "1e9", "--lr", "1"], "go together"),
        (["--batch", "x", "--params", "1e9"], "not an integer"),
    ],
)
def test_what_is_wrong_is_one_line(argv, message, capsys):
    assert plan.main(argv) == 2
    text = capsys.readouterr().err
    assert message in text and text.count("\n") == 1
