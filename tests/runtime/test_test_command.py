"""`accel test`: what is launched, what counts as different, and one launch for real."""

from __future__ import annotations

import json
import sys

import pytest
import torch

from accel_runtime.commands import test as command
from accel_runtime.commands.test import _cause, _failure, tried
from accel_runtime.trials import cases as all_cases
from accel_runtime.trials import program
from accel_runtime.trials.cases import Case, cases

from .ranks import run_ranks

RUN = {"precision": "no", "loss": 1e-7, "weights": 1e-7, "samples": True}


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_the_trial_trains_as_plain_pytorch_does(tmp_path, processes):
    path = tmp_path / "result.json"
    run_ranks(program.main, processes, path, env={"ACCELERATE_USE_CPU": "true"})
    found = json.loads(path.read_text())
    assert (found["processes"], found["device"]) == (processes, "cpu")
    full, half = found["runs"]
    assert (full["precision"], half["precision"]) == ("no", "bf16")
    assert full["loss"] < 1e-5 and full["weights"] < 1e-5 and full["samples"]
    assert 1e-5 < half["loss"] < 0.1 and half["samples"]


@pytest.mark.parametrize("size", ["CP", "TP"])
def test_sequences_and_layers_that_processes_share(tmp_path, size):
    path = tmp_path / "result.json"
    sizes = {"ACCELERATE_USE_PARALLELISM_CONFIG": "true", f"PARALLELISM_CONFIG_{size}_SIZE": "2"}
    run_ranks(program.main, 2, path, env={"ACCELERATE_USE_CPU": "true", **sizes})
    full, half = json.loads(path.read_text())["runs"]
    assert full["loss"] < 1e-5 and full["weights"] < 1e-5 and full["samples"] and half["loss"] < 0.1


def test_float8_is_launched_by_itself(monkeypatch):
    monkeypatch.setattr(all_cases.importlib.util, "find_spec", lambda name: name == "torchao" or None)
    assert cases_of(2)[-1] == ("data parallel, float8", ("--cpu", "--mixed_precision", "fp8"))
    assert cases_of(2)[-2] == (
        "context parallel, groups of 2", ("--cpu", "--use_parallelism_config", "--parallelism_config_cp_size", "2")
    )  # fmt: skip
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "fp8")
    assert list(program.precisions(torch.device("cpu"))) == ["fp8"]


def cases_of(processes):
    return [(case.name, case.options) for case in cases(0, processes, False)]


def test_strategies_that_the_runtime_lacks_are_not_launched(monkeypatch):
    monkeypatch.setattr(all_cases, "offered", lambda switch: False)
    monkeypatch.setattr(all_cases.importlib.util, "find_spec", lambda name: None)
    assert [case.name for case in cases(0, 2, False)] == ["one process", "data parallel"]
    monkeypatch.setattr(all_cases, "offered", lambda switch: switch == "use_fsdp")
    assert [case.options for case in cases(4, 4, False)][2] == ("--use_fsdp",)


def test_more_processes_than_devices_train_on_the_cpu():
    assert [case.options[:1] for case in cases(1, 2, False)][:2] == [(), ("--cpu",)]
    assert all("--cpu" not in case.options for case in cases(2, 2, False))
    assert all("--cpu" in case.options for case in cases(2, 2, True))


def rows(monkeypatch, run: dict | None, failure: str = "") -> list[command.Row]:
    def launch(line: list[str], folder: str, timeout: float) -> str:
        if run is not None:
            with open(line[-1], "w") as file:
                json.dump({"processes": 2, "device": "cpu", "type": "MULTI_CPU", "runs": [run]}, file)
        return failure

    monkeypatch.setattr(command, "_failure", launch)
    return list(tried(Case("data parallel", 2, ("--cpu",)), 60))


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({}, ""),
        ({"loss": 1e-3}, "differs by more than 0.0001"),
        ({"weights": float("inf")}, "differs by more than 0.0001"),
        ({"loss": float("nan")}, "differs by more than 0.0001"),
        ({"samples": False}, "other samples, or in another order"),
        ({"precision": "bf16", "loss": 0.01}, ""),
    ],
)
def test_what_counts_as_different(monkeypatch, changes, wrong):
    assert [row.wrong for row in rows(monkeypatch, RUN | changes)] == [wrong]


def test_a_launch_that_fails_is_a_row(monkeypatch):
    assert [row.wrong for row in rows(monkeypatch, None, "RuntimeError: no")] == ["RuntimeError: no"]


def test_the_cause_is_the_errors_line_not_what_follows():
    text = "UserWarning: odd\nTraceback (most recent call last):\n  File 'x'\nValueError: the cause\naccel launch: process 1 of 2 failed first\n"
    assert _cause(text) == "ValueError: the cause"
    assert (
        _cause("accel launch: --use_fsdp: no\n") == "accel launch: --use_fsdp: no"
        and _cause("") == "it ended without a word"
    )


def test_a_launch_that_does_not_end_is_stopped(tmp_path):
    assert (
        _failure([sys.executable, "-c", "import time; time.sleep(60)"], str(tmp_path), 0.5)
        == "not finished after 0.5 seconds"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--num_processes", "0"], "'0' is not an integer"),
        (["--config_file", "none.yaml"], "cannot read none.yaml"),
        (["x"], "unrecognized arguments: x"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(arguments, message, capsys):
    assert command.main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


@pytest.mark.torchrun
def test_a_configuration_file_is_launched_for_real(tmp_path, capsys):
    file = tmp_path / "accel.yaml"
    file.write_text("num_processes: 2\nuse_cpu: true\n")
    assert command.main(["--config_file", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(row["processes"], row["precision"], row["wrong"]) for row in found] == [(2, "no", ""), (2, "bf16", "")]
