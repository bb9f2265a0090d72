"""`accel estimate`: sizes of models, and bytes against those of a real training step and of the papers."""

from __future__ import annotations

import json
import math

import pytest
import torch

from accel_runtime.commands import estimate
from accel_runtime.estimate.memory import PRECISIONS, STRATEGIES, Job, Need, need
from accel_runtime.estimate.size import Size, of_count, of_model
from accel_runtime.settings.errors import LaunchError

BY_NAME = {strategy.name: strategy for strategy in STRATEGIES}
BILLION = 10**9


def of(name: str, precision: str, size: int = BILLION, **job) -> Need:
    return need(Job(Size("m", size, size // 10), **job), BY_NAME[name], precision)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("7e9", 7 * BILLION),
        ("7B", 7 * BILLION),
        ("350m", 350_000_000),
        ("1.5 b", 1_500_000_000),
        ("12_000", 12_000),
        (".5k", 500),
    ],
)
def test_numbers_of_parameters(text, count):
    assert of_count(text).parameters == count


@pytest.mark.parametrize("text", ["", "seven", "7x", "-3", "0", "1e"])
def test_what_is_no_number_of_parameters(text):
    with pytest.raises(LaunchError, match="is not a number of parameters"):
        of_count(text)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("adamw", torch.optim.AdamW),
        ("sgd", torch.optim.SGD),
        ("sgd-momentum", lambda p: torch.optim.SGD(p, momentum=0.9)),
    ],
)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_bytes_are_those_of_a_real_step(name, make, precision):
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.Linear(128, 8)).to(
        torch.bfloat16 if precision == "bf16" else torch.float32
    )
    optimizer = make(model.parameters())
    model(torch.ones(2, 64, dtype=model[0].weight.dtype)).sum().backward()
    optimizer.step()
    parameters = list(model.parameters())
    states = [
        value
        for state in optimizer.state.values()
        for value in state.values()
        if torch.is_tensor(value) and value.dim()
    ]
    found = of("data parallel", precision, sum(p.numel() for p in parameters), optimizer=name)
    assert (found.weights, found.gradients) == (
        sum(p.nbytes for p in parameters),
        sum(p.grad.nbytes for p in parameters),
    )
    assert found.optimizer == sum(state.nbytes for state in states)


@pytest.mark.parametrize(("stage", "each"), [(1, 2 + 2 + 12 / 64), (2, 2 + (2 + 12) / 64), (3, (2 + 2 + 12) / 64)])
def test_zero_is_as_in_its_paper(stage, each):
    found = of(f"ZeRO {stage} (DeepSpeed)", "mixed", devices=64)
    assert math.isclose(found.weights + found.gradients + found.optimizer, each * BILLION)


def test_sharding_divides_what_is_kept_and_gathers_a_block_or_the_whole():
    full, kept = (
        of("FSDP, fully sharded", "mixed", devices=8),
        of("FSDP, weights kept for backward", "mixed", devices=8),
    )
    assert full.weights + full.gradients + full.optimizer == 16 * BILLION / 8
    assert full.gathered == (2 + 1) * 2 * BILLION / 10 and kept.gathered == 2 * BILLION + 2 * BILLION / 10


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
def test_one_device_holds_the_whole_whatever_the_strategy(strategy):
    for precision in strategy.precisions:
        one = need(Job(Size("m", BILLION, BILLION), devices=1), strategy, precision)
        assert one.gathered == 0 and one.weights + one.gradients + one.optimizer == BILLION * (
            16 if precision != "bf16" else 8
        )


def test_more_devices_never_need_more():
    for strategy in STRATEGIES:
        for precision in strategy.precisions:
            totals = [
                need(Job(Size("m", BILLION, BILLION // 50), devices=n), strategy, precision).total
                for n in (2, 4, 8, 64)
            ]
            assert totals == sorted(totals, reverse=True)


def test_activations_are_as_in_their_paper():
    size = Size("gpt", 175 * BILLION, BILLION, layers=96, hidden=12288, heads=96)
    block = 2048 * 1 * 12288 * (34 + 5 * 96 * 2048 / 12288)
    job = {"batch": 1, "length": 2048, "attention": True}
    assert need(Job(size, **job), BY_NAME["data parallel"], "mixed").activations == pytest.approx(96 * block)
    less = need(Job(size, **job, checkpointing=True), BY_NAME["data parallel"], "mixed").activations
    assert less == pytest.approx(block + 96 * 2 * 2048 * 12288)
    shared = need(Job(size, **job, devices=8), BY_NAME["tensor parallel"], "mixed").activations
    assert shared == pytest.approx(96 * 2048 * 12288 * (10 + (24 + 5 * 96 * 2048 / 12288) / 8))


MODEL = """
import torch
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 16))
class Net(torch.nn.Module):
    def __init__(self, depth=3):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(depth))
        self.head = torch.nn.Linear(16, 2)
def needs_data(x): ...
number = int
"""


def test_a_class_in_a_file(tmp_path):
    (tmp_path / "net.py").write_text(MODEL)
    block = 16 * 64 + 64 + 64 * 16 + 16
    size = of_model(f"{tmp_path}/net.py:Net")
    assert (size.parameters, size.block, size.layers) == (3 * block + 16 * 2 + 2, block, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either a MODEL or --params"),
        (["gpt2", "--params", "7B"], "give either a MODEL or --params"),
        (["--params", "x"], "is not a number of parameters"),
        (["--params", "7B", "--batch", "8"], "--batch and --length go together"),
        (
            ["--params", "7B", "--batch", "8", "--length", "128"],
            "activations can be counted for Transformers models only",
        ),
        (["--params", "7B", "--num_processes", "0"], "'0' is not an integer from 1 up"),
        (["--params", "7B", "--memory", "-1"], "'-1' is not a number above 0"),
        (["none.py:Net"], "no such file: none.py"),
        (["net.py:needs_data"], "cannot be made without arguments and data: TypeError"),
        (["net.py:number"], "is a int, not a torch.nn.Module"),
        (["net.py:Missing"], "AttributeError"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(tmp_path, monkeypatch, arguments, message, capsys):
    (tmp_path / "net.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    assert estimate.main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_the_table_and_the_figures(capsys):
    pytest.importorskip("rich")
    assert estimate.main(["--params", "7B", "--num_processes", "8", "--memory", "80"]) == 0
    rows = {line.split("│")[1].strip(): line for line in capsys.readouterr().out.splitlines() if line.startswith("│")}
    assert set(rows) == set(BY_NAME) and "130 │" in rows["data parallel"] and "14.34 *" in rows["FSDP, fully sharded"]
    assert estimate.main(["--params", "7B", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)["bytes"]["data parallel"]
    assert list(figures) == list(PRECISIONS) and figures["fp32"]["total"] == 7 * BILLION * 20


def test_a_transformers_configuration_without_weights(tmp_path):
    pytest.importorskip("transformers")
    config = {
        "model_type": "gpt2",
        "n_embd": 64,
        "n_layer": 3,
        "n_head": 4,
        "vocab_size": 100,
        "n_positions": 32,
        "architectures": ["GPT2LMHeadModel"],
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    size = of_model(str(tmp_path))
    block = 4 * 64 + 64 * 192 + 192 + 64 * 64 + 64 + 64 * 256 + 256 + 256 * 64 + 64
    assert (size.layers, size.hidden, size.heads, size.vocabulary, size.block) == (3, 64, 4, 100, block)
    assert size.parameters == 3 * block + 100 * 64 + 32 * 64 + 2 * 64


@pytest.mark.parametrize(("parameters", "unit"), [("200", "KiB"), ("1M", "MiB"), ("7B", "GiB")])
def test_the_unit_follows_the_size(parameters, unit, capsys):
    pytest.importorskip("rich")
    assert estimate.main(["--params", parameters, "--num_processes", "2"]) == 0
    assert f"{unit} per device" in capsys.readouterr().out
