"""Models larger than a device: made without memory, spread by a plan, computed piece by piece with the same results."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from accel_runtime import (
    Accelerator,
    cpu_offload,
    disk_offload,
    dispatch_model,
    infer_auto_device_map,
    init_empty_weights,
    init_on_device,
    load_checkpoint_and_dispatch,
    load_checkpoint_in_model,
)

MIXED = {"first": "cpu", "norm": "disk", "blocks.0": "disk", "blocks.1": "cpu", "last": "disk"}


class Net(nn.Module):
    def __init__(self, tied: bool = False) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.norm = nn.BatchNorm1d(8)
        self.blocks = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
        self.last = nn.Linear(8, 4)
        if tied:
            self.last.weight = nn.Parameter(self.first.weight.detach().T.contiguous())
            self.blocks[1].weight = self.blocks[0].weight

    def forward(self, x: torch.Tensor, shift: torch.Tensor | None = None) -> torch.Tensor:
        x = self.blocks(self.norm(self.first(x)).relu())
        return self.last(x if shift is None else x + shift)


@pytest.fixture
def saved(tmp_path):
    torch.manual_seed(0)
    model = Net().eval()
    model.norm.running_mean.normal_()
    x = torch.randn(3, 4)
    return model, x, model(x).detach(), tmp_path


def test_weights_that_are_made_without_memory():
    with init_empty_weights():
        model = Net()
    assert all(p.is_meta for p in model.parameters()) and not any(b.is_meta for b in model.buffers())
    with init_empty_weights(include_buffers=True):
        assert all(b.is_meta for b in Net().buffers())
    with init_on_device("cpu"):
        assert not any(p.is_meta for p in Net().parameters())
    assert not any(p.is_meta for p in Net().parameters())


@pytest.mark.parametrize("safe", [True, False], ids=["safetensors", "pickled"])
@pytest.mark.parametrize("limit", ["10GB", "300B"], ids=["one file", "several files"])
def test_a_checkpoint_goes_into_an_empty_model_piece_by_piece(saved, safe, limit):
    model, x, expected, folder = saved
    Accelerator(cpu=True).save_model(model, folder / "model", limit, safe)
    with init_empty_weights():
        empty = Net().eval()
    loaded = load_checkpoint_and_dispatch(
        empty, folder / "model", MIXED, offload_folder=folder / "weights", strict=True
    )
    assert loaded is empty
    assert loaded.norm.weight.is_meta and not loaded.blocks[1].weight.is_meta
    assert torch.equal(loaded(x), expected)
    assert loaded.last.weight.is_meta, "brought in for the pass only"
    assert torch.equal(loaded(x, shift=torch.zeros(8)), expected)
    Accelerator(cpu=True).save_model(loaded, folder / "again", safe_serialization=safe)
    fresh = load_checkpoint_and_dispatch(Net().eval(), folder / "again")
    assert torch.equal(fresh(x), expected)
    assert not any(p.is_meta for p in load_checkpoint_and_dispatch(loaded, folder / "again").parameters())


def test_a_model_at_hand_is_spread(saved):
    model, x, expected, folder = saved
    assert torch.equal(disk_offload(model, folder)(x), expected)
    assert all(p.is_meta for p in model.parameters())
    assert torch.equal(disk_offload(model, folder)(x), expected), "twice is harmless"
    host = Net().eval()
    before = host(x)
    assert torch.equal(cpu_offload(host)(x), before) and not host.first.weight.is_meta, (
        "the CPU computes: nothing to bring in"
    )


def test_a_device_of_its_own_gets_its_inputs_and_the_host_keeps_the_weights():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    dispatch_model(model, {"0": "cpu", "1": "meta"}, main_device="meta")
    assert model[0].weight.is_meta
    out = model(torch.randn(2, 4))
    assert out.is_meta and out.shape == (2, 4)


def test_shared_weights_are_kept_once(saved):
    _, x, _, folder = saved
    model = Net(tied=True).eval()
    expected = model(x).detach()
    assert torch.equal(disk_offload(model, folder / "w")(x), expected)
    assert not (folder / "w" / "blocks.1.weight.dat").exists()
    Accelerator(cpu=True).save_model(Net(tied=True), folder / "model")
    load_checkpoint_and_dispatch(model, folder / "model")
    assert model.blocks[0].weight is model.blocks[1].weight and not model.blocks[0].weight.is_meta


def test_weights_that_are_brought_in_let_gradients_through(saved):
    model, x, _, folder = saved
    x.requires_grad_()
    model(x).sum().backward()
    expected, x.grad = x.grad, None
    disk_offload(model, folder)(x).sum().backward()
    assert torch.allclose(x.grad, expected)


def test_what_is_wrong_is_said(saved):
    model, _, _, folder = saved
    with pytest.raises(ValueError, match="no entry for 'norm'"):
        dispatch_model(model, {"first": "cpu", "blocks": "cpu", "last": "cpu"})
    with pytest.raises(ValueError, match="give the folder"):
        dispatch_model(model, {"": "disk"})
    with pytest.raises(ValueError, match="has no weights"):
        load_checkpoint_in_model(model, folder)
    with init_empty_weights():
        empty = Net()
    with pytest.raises(ValueError, match="meta"):
        dispatch_model(empty, {"": "cpu"})
    torch.save({"first.weight": torch.ones(1)}, folder / "other.bin")
    with pytest.raises(ValueError, match=r"first.weight has shape \(1,\)"):
        load_checkpoint_in_model(model, folder / "other.bin")
    torch.save({"first.bias": torch.ones(8)}, folder / "part.bin")
    with pytest.raises(ValueError, match="lacks"):
        load_checkpoint_in_model(model, folder / "part.bin", strict=True)


def test_a_plan_fills_device_after_device():
    with init_empty_weights():
        model = Net()  # bytes: first 160, norm 64 + 72, blocks 2 x 288, last 144
    assert infer_auto_device_map(model, {"cpu": "1GB"}) == {"": "cpu"}
    plan = infer_auto_device_map(model, {0: 600, "cpu": 400})  # on 0 there stays room for a block of 288
    assert plan == {"first": 0, "norm": 0, "blocks.0": "cpu", "blocks.1": "disk", "last": "disk"}
    whole = infer_auto_device_map(model, {"cpu": 500}, no_split_module_classes="Sequential")
    assert whole["blocks"] == "disk" and "blocks.0" not in whole
    half = infer_auto_device_map(model, {"cpu": 600}, dtype=torch.float16)
    assert half == {"": "cpu"}
