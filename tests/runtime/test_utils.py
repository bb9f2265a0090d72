"""The names of `accelerate.utils`."""

from __future__ import annotations

import os
import pickle
from collections import namedtuple

import pytest
import torch
from torch import nn

from accel_runtime import utils
from accel_runtime.utils import environment, operations, other

from .ranks import run_ranks

Pair = namedtuple("Pair", "x y")


def test_every_name_is_there():
    for name in utils.__dir__():
        getattr(utils, name)
    assert utils.is_torch_version(">=", "2.6") and not utils.is_no_such_thing_available()
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = utils.nothing


def test_collectives_without_a_world_in_hand():
    def body():
        rank = int(os.environ["RANK"])
        return (
            utils.gather(torch.tensor([rank])).tolist(),
            utils.reduce(torch.tensor(2.0 * rank)).item(),
            utils.gather_object([rank]),
            utils.broadcast_object_list([rank], from_process=1),
            utils.pad_across_processes(torch.ones(rank + 1)).tolist(),
        )

    assert run_ranks(body, 2) == [([0, 1], 1.0, [0, 1], [1], [1, 0]), ([0, 1], 1.0, [0, 1], [1], [1, 1])]


def test_streams_are_made_equal():
    def body():
        generator = torch.Generator().manual_seed(int(os.environ["RANK"]))
        torch.manual_seed(int(os.environ["RANK"]))
        utils.synchronize_rng_states(["torch", "generator"], generator)
        return torch.rand(1).item(), torch.rand(1, generator=generator).item()

    first, second = run_ranks(body, 2)
    assert first == second
    with pytest.raises(ValueError, match="must be 'torch', 'cuda', or 'generator'"):
        utils.synchronize_rng_state("numpy")


def test_environment_is_put_back(monkeypatch):
    monkeypatch.setenv("KNOWN", "a")
    with pytest.raises(KeyError), utils.patch_environment(known="b", new=1):
        assert (os.environ["KNOWN"], os.environ["NEW"]) == ("b", "1")
        raise KeyError
    assert os.environ["KNOWN"] == "a" and "NEW" not in os.environ

    @utils.purge_accelerate_environment
    class Tests:
        def test_sets(self):
            os.environ["ACCELERATE_THING"] = "1"

    Tests().test_sets()
    assert "ACCELERATE_THING" not in os.environ
    assert environment.str_to_bool("Yes", to_bool=True) is True
    with pytest.raises(ValueError, match="'maybe' is neither yes nor no"):
        environment.str_to_bool("maybe")


def test_items_of_containers():
    data = Pair([torch.ones(1)], {"a": torch.ones(1)})
    doubled = operations.recursively_apply(lambda t: 2 * t, data)
    assert isinstance(doubled, Pair) and doubled.y["a"].item() == 2
    with pytest.raises(TypeError, match="Unsupported types"):
        operations.recursively_apply(torch.neg, [3], error_on_other_type=True)
    with pytest.raises(TypeError, match="Can only concatenate tensors"):
        operations.concatenate([["a"], ["b"]])
    assert operations.listify({"a": torch.ones(2).bfloat16()}) == {"a": [1.0, 1.0]}


def test_outputs_become_float32():
    layer = nn.Linear(2, 2).bfloat16()
    layer.forward, layer._original_forward = operations.convert_outputs_to_fp32(layer.forward), layer.forward
    assert layer(torch.ones(1, 2).bfloat16()).dtype is torch.float32
    plain = other.extract_model_from_parallel(nn.DataParallel(layer), keep_fp32_wrapper=False)
    pickle.dumps(plain)
    assert plain(torch.ones(1, 2).bfloat16()).dtype is torch.bfloat16


def test_saving(tmp_path, caplog):
    layer = nn.Linear(2, 2)
    other.save(layer.state_dict(), tmp_path / "a.pt")
    assert other.load(tmp_path / "a.pt")["weight"].equal(layer.weight)
    pytest.importorskip("safetensors")
    other.save({"a": layer.weight.detach(), "b": layer.weight.detach()}, tmp_path / "a.safetensors", safe_serialization=True)
    assert "Removed shared tensor {'b'}" in caplog.text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.pt", "a.safetensors"]


def test_odds_and_ends():
    assert other.merge_dicts({"a": {"b": 1}}, {"a": {"c": 2}}) == {"a": {"b": 1, "c": 2}}
    assert other.convert_bytes(3 * 1024**2) == "3.0 MB"
    assert utils.compare_versions("2.13.0+cpu", ">", "2.6") and not utils.compare_versions("2.6.0", ">", "2.6")
    with pytest.raises(ValueError, match="operation is '~'"):
        utils.compare_versions("1", "~", "2")
