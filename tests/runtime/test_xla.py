"""Training on torch_xla's devices, four of them on its CPU backend: the training of one process."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

needs_xla = pytest.mark.skipif(importlib.util.find_spec("torch_xla") is None, reason="needs torch_xla")
SCRIPT = Path(__file__).parent / "xla_training.py"


def train(folder: Path, *settings: str, devices: int = 4) -> dict[str, Any]:
    variables = {"PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": str(devices)} if devices else {}
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder), *settings],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout.splitlines()[-1])
    return {**result, "weights": torch.load(folder / "weights.pt")}


@needs_xla
@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "tolerance"),
    [
        ("transformer", 1e-5),
        ("convolutional", 1e-5),
        ("transformer fsdp", 1e-5),
        ("convolutional accumulate", 1e-5),
        ("transformer bf16", 2e-2),
    ],
)
def test_four_devices_train_as_one_process(tmp_path, settings, tolerance):
    plain = train(tmp_path / "plain", *settings.split(), devices=0)
    spread = train(tmp_path / "spread", *settings.split())
    assert spread["device"] == "xla" and spread["processes"] == 1
    assert spread["losses"] == pytest.approx(plain["losses"], rel=tolerance)
    for name, value in spread["weights"].items():
        assert value.device.type == "cpu"
        difference = (value.double() - plain["weights"][name].double()).norm()
        assert difference <= 50 * tolerance * plain["weights"][name].double().norm() + 1e-6, name


@needs_xla
@pytest.mark.slow
def test_a_run_goes_on_where_it_was_interrupted_on_other_devices_too(tmp_path):
    whole = train(tmp_path, "convolutional")
    again = train(tmp_path, "convolutional", "resume")
    assert again["losses"] == whole["losses"]
    assert all(torch.equal(value, whole["weights"][name]) for name, value in again["weights"].items())
    assert train(tmp_path, "convolutional", "resume", devices=0)["losses"] == pytest.approx(whole["losses"], rel=1e-5)


@needs_xla
@pytest.mark.parametrize(
    ("settings", "message"),
    [("mixed_precision='fp16'", "TPUs do not have"), ("parallelism_config=ParallelismConfig(tp_size=2)", "leave out deepspeed_plugin")],
)
def test_what_tpus_do_not_have(settings, message):
    code = f"from accel_runtime import Accelerator, ParallelismConfig\nAccelerator({settings})"
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PJRT_DEVICE": "CPU"}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, timeout=120)
    assert done.returncode and message in done.stderr.splitlines()[-1]
