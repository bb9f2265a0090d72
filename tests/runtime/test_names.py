"""Names of Accelerate that scripts and libraries look for, and what they answer."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import pytest
import torch
from torch.utils.data import DataLoader

from accel_runtime import Accelerator, GradientState, ParallelismConfig, TorchDynamoPlugin
from accel_runtime.state import AcceleratorState
from accel_runtime.utils import (
    OffloadedWeightsLoader,
    TorchContextParallelConfig,
    extract_submodules_state_dict,
    load_offloaded_weight,
    offload_state_dict,
    offload_weight,
    patch_environment,
)

from .networks import Transformer, sentences
from .training import data, mlp


@pytest.fixture(autouse=True)
def fresh():
    AcceleratorState._reset_state(True)
    GradientState._reset_state()
    yield
    AcceleratorState._reset_state(True)


def test_what_is_prepared_says_so_and_copies_do_not():
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    keys = set(vars(model)), set(scheduler.state_dict())
    prepared = Accelerator(cpu=True).prepare(model, optimizer, scheduler, DataLoader(data(8), 4))
    assert all(item._is_accelerate_prepared for item in prepared)
    assert not copy.deepcopy(model)._is_accelerate_prepared and not mlp()._is_accelerate_prepared
    assert (set(vars(model)), set(scheduler.state_dict())) == keys
    copied = copy.deepcopy(model)
    copied._is_accelerate_prepared = True  # as another library does
    assert copied._is_accelerate_prepared


def test_a_loader_that_nobody_holds_is_gone():
    accelerator = Accelerator(cpu=True)
    loader = accelerator.prepare_data_loader(DataLoader(data(8), 4))
    next(iter(loader))
    assert isinstance(loader.gradient_state, GradientState)
    accelerator.free_memory()
    known = weakref.ref(loader), weakref.ref(accelerator)
    gc.disable()
    try:
        del loader, accelerator
        assert [reference() for reference in known] == [None, None]
    finally:
        gc.enable()


def test_an_accelerator_whose_state_was_reset_says_so():
    accelerator = Accelerator(cpu=True)
    AcceleratorState._reset_state()
    with pytest.raises(AttributeError, match=r"This happens if `AcceleratorState\._reset_state"):
        accelerator.prepare(mlp())


def test_a_pickled_accelerator_is_that_of_its_process():
    accelerator = Accelerator(cpu=True)
    assert pickle.loads(pickle.dumps(accelerator)) is accelerator


def test_a_scheduler_beyond_its_last_step_is_an_error_only_in_plain_pytorch():
    for exact in (True, False):
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=2)
        Accelerator(cpu=True, split_batches=exact).prepare(model, optimizer, scheduler)
        scheduler.step()
        scheduler.step()
        if exact:
            with pytest.raises(ValueError, match="Tried to step"):
                scheduler.step()
        else:
            scheduler.step()


@pytest.mark.parametrize("regional", [True, False])
def test_compiled_models_stay_the_same_object(regional):
    model = Transformer()
    ids = sentences()[0][0][None]
    keys = list(model.state_dict())
    expected = model(ids)
    plugin = TorchDynamoPlugin(backend="eager", use_regional_compilation=regional)
    prepared = Accelerator(cpu=True, dynamo_plugin=plugin).prepare(model)
    assert prepared is model and list(model.state_dict()) == keys
    assert (model._compiled_call_impl is None) == regional
    assert torch.allclose(model(ids), expected)
    assert type(pickle.loads(pickle.dumps(model))) is Transformer


def test_settings_of_compilation():
    with patch_environment(ACCELERATE_DYNAMO_BACKEND="EAGER", ACCELERATE_DYNAMO_MODE="reduce-overhead"):
        assert TorchDynamoPlugin().to_kwargs() == {"backend": "eager", "mode": "reduce-overhead"}
    assert not TorchDynamoPlugin().compiles
    with pytest.raises(ValueError, match="both given"):
        Accelerator(cpu=True, dynamo_backend="eager", dynamo_plugin=TorchDynamoPlugin())


def test_dimensions_of_a_mesh():
    sizes = ParallelismConfig(dp_replicate_size=2, dp_shard_size=2, tp_size=2, cp_size=2)
    assert sizes._get_mesh() == (("dp_replicate", "dp_shard", "cp", "tp"), (2, 2, 2, 2))
    assert (sizes.data_parallel_size, sizes.non_data_parallel_size, sizes.total_size) == (4, 4, 16)
    assert sizes.dp_shard_cp_dim_names == ["dp_shard", "cp"] and sizes.non_dp_dim_names == ["cp", "tp"]
    assert ParallelismConfig().build_device_mesh("cpu") is None
    assert sizes.cp_handler.cp_comm_strategy == "allgather"
    with pytest.raises(ValueError, match="Invalid cp_comm_strategy: ring"):
        TorchContextParallelConfig("ring")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_weights_in_files(tmp_path, dtype):
    for weight in (
        torch.arange(6).reshape(2, 3).to(dtype),
        torch.ones((), dtype=dtype),
        torch.empty(0, 3, dtype=dtype),
    ):
        index = offload_weight(weight, "a.w", tmp_path, {"other": {}})
        assert index["a.w"] == {"shape": list(weight.shape), "dtype": str(dtype)[6:]} and "other" in index
        assert torch.equal(load_offloaded_weight(tmp_path / "a.w.dat", index["a.w"]), weight)


def test_some_weights_at_hand_and_some_in_files(tmp_path):
    state = mlp().state_dict()
    first, *others = state
    offload_state_dict(tmp_path, {name: state[name] for name in others})
    loader = OffloadedWeightsLoader({first: state[first]}, tmp_path)
    assert sorted(loader) == sorted(state) and len(loader) == len(state)
    assert all(torch.equal(loader[name], value) for name, value in state.items())
    assert extract_submodules_state_dict({"a.1.w": 1, "a.10.w": 2, "a.1": 3}, ["a.1"]) == {"a.1.w": 1, "a.1": 3}
    with pytest.raises(ValueError, match="needs a state_dict"):
        OffloadedWeightsLoader()


def test_weights_in_a_safetensors_file(tmp_path):
    layer = mlp()
    Accelerator(cpu=True).save_model(layer, tmp_path)
    file = {"safetensors_file": str(tmp_path / "model.safetensors")}
    loader = OffloadedWeightsLoader(index={name: file for name in layer.state_dict()})
    for name, value in layer.state_dict().items():
        loader[name].zero_()
        assert torch.equal(loader[name], value), "the file stays as it was"


def test_module_names():
    from accel_runtime.parallelism_config import ParallelismConfig as same
    from accel_runtime.utils.constants import BETA_TP_AVAILABLE_PYTORCH_VERSION

    assert same is ParallelismConfig and BETA_TP_AVAILABLE_PYTORCH_VERSION[0] == "2"
