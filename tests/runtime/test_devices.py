"""A device that is not there is named at once."""

from __future__ import annotations

import types

import pytest
import torch

from accel_runtime import devices
from accel_runtime.state import AcceleratorState, PartialState
from accel_runtime.strategies import fsdp


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tpu", "TPUs are not offered"),
        ("xla:0", "TPUs are not offered"),
        ("npu:1", "no device of this torch: install torch_npu"),
        ("warp", "no device of this torch; one looks like 'cuda:0'"),
        ("xpu", "this machine has no accelerator that torch can use"),
        ("mps", "train on the CPU with Accelerator"),
    ],
)
def test_what_a_machine_does_not_have(monkeypatch, name, message):
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available=False: None)
    with pytest.raises(ValueError, match=message):
        devices.named(name)


def test_another_kind_and_too_high_a_number(monkeypatch):
    chosen = []
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available=False: torch.device("xpu"))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    monkeypatch.setattr(torch.accelerator, "set_device_index", chosen.append)
    with pytest.raises(ValueError, match="this machine computes on xpu"):
        devices.named("cuda")
    with pytest.raises(ValueError, match="has 2 xpu devices, numbered from 0"):
        devices.named("xpu:2")
    assert devices.named("xpu:1") == torch.device("xpu:1") and chosen == [1]


def test_the_environment_names_one(monkeypatch):
    AcceleratorState._reset_state(True)
    monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", "cpu")
    assert PartialState().device == torch.device("cpu")
    AcceleratorState._reset_state(True)
    monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", "tpu")
    with pytest.raises(ValueError, match="ACCELERATE_TORCH_DEVICE is 'tpu'"):
        PartialState()
    AcceleratorState._reset_state(True)


def test_a_torch_without_what_sharding_needs_says_its_version(monkeypatch):
    fsdp.check_torch()
    monkeypatch.setattr(fsdp, "_state_class", lambda: types.SimpleNamespace)
    with pytest.raises(RuntimeError, match=r"sharding needs parts of torch that .* does not have .*: install torch 2\.13"):
        fsdp.check_torch()
