"""A device that is not there is named at once."""

from __future__ import annotations

import sys
import types

import pytest
import torch

from accel_runtime import devices
from accel_runtime.state import AcceleratorState, PartialState
from accel_runtime.strategies import fsdp_versions


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tpu", "asks for a TPU, and torch_xla cannot be imported"),
        ("xla:0", "install torch_xla, in the version of your torch"),
        ("npu:1", "no device of this torch: install torch_npu"),
        ("warp", "no device of this torch; one looks like 'cuda:0'"),
        ("xpu", "this machine has no accelerator that torch can use"),
        ("mps", "train on the CPU with Accelerator"),
    ],
)
def test_what_a_machine_does_not_have(monkeypatch, name, message):
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available=False: None)
    monkeypatch.setitem(sys.modules, "torch_xla", None)
    with pytest.raises(ValueError, match=message):
        devices.named(name)


def test_several_processes_on_a_tpu(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_xla", types.SimpleNamespace(runtime=None))
    monkeypatch.setitem(sys.modules, "torch_xla.runtime", types.SimpleNamespace())
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(ValueError, match="4 processes were started for a TPU: one process drives all devices"):
        devices.named("tpu")


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
    monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", "warp")
    with pytest.raises(ValueError, match="ACCELERATE_TORCH_DEVICE is 'warp'"):
        PartialState()
    AcceleratorState._reset_state(True)


def test_a_torch_without_what_sharding_needs_says_its_version(monkeypatch):
    fsdp_versions.check()
    monkeypatch.setattr(fsdp_versions, "_state_class", lambda: types.SimpleNamespace)
    with pytest.raises(RuntimeError, match=r"sharding needs parts of torch that .* does not have .*: install torch 2\.9"):
        fsdp_versions.check()
