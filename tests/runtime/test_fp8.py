"""fp8 by torchao: which layers, how far from full precision, the same on several processes, and what stays as it was."""

from __future__ import annotations

import copy
import pickle
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from accel_runtime import Accelerator, AORecipeKwargs, FullyShardedDataParallelPlugin, ParallelismConfig, fp8
from accel_runtime.batches import Tracker
from accel_runtime.utils import FP8RecipeKwargs, MSAMPRecipeKwargs, TERecipeKwargs

from .networks import Transformer, fit_network, sentences
from .ranks import RanksFailed, run_ranks
from .training import accelerated, assert_close, assert_identical, data, plain, seed

needs_torchao = pytest.mark.skipif(not fp8.is_available(), reason="needs torchao")
CPU = torch.device("cpu")


def deep() -> nn.Module:
    """Of its four linear layers the second and third compute in float8."""
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 1)
    )


def in_float8(model: nn.Module) -> list[str]:
    return [
        name for name, module in model.named_modules() if isinstance(module.__dict__.get("forward"), fp8.Float8Forward)
    ]


def transformer(trainer):
    torch.manual_seed(3)
    return fit_network(trainer, Transformer(), sentences())


def without_streams(result):
    return {key: value for key, value in result.items() if key != "streams"}


def test_without_torchao_one_line_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(fp8, "is_available", lambda: False)
    with pytest.raises(
        RanksFailed, match=r"ImportError: mixed_precision='fp8' needs torchao; install it with: pip install torchao"
    ):
        accelerated(lambda trainer: {}, 1, mixed_precision="fp8")


@pytest.mark.parametrize("recipe", [TERecipeKwargs, MSAMPRecipeKwargs, FP8RecipeKwargs])
def test_recipes_of_other_libraries_say_what_is_offered(recipe):
    with pytest.raises(
        ValueError, match=rf"{recipe.__name__} is for .*, which is not used: fp8 is computed by torchao"
    ):
        recipe(backend="TE")


@needs_torchao
@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("blockwise", "it must be one of 'tensorwise', 'rowwise', 'rowwise_with_gw_hp'"),
        ({"emulate": True}, "is a dict: it must be torchao's"),
    ],
)
def test_what_is_no_configuration_is_refused(config, message):
    with pytest.raises(ValueError, match=message):
        fp8.Float8(AORecipeKwargs(config=config), CPU)


@needs_torchao
@pytest.mark.parametrize(
    ("capability", "hip", "expected"),
    [((8, 6), None, True), ((8, 9), None, False), ((9, 0), "6", True), ((9, 4), "6", False)],
)
def test_devices_without_the_instructions_emulate(monkeypatch, capability, hip, expected):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.version, "hip", hip)
    assert fp8.Float8(AORecipeKwargs(), torch.device("cuda")).config.emulate is expected
    assert fp8.Float8(AORecipeKwargs(), CPU).config.emulate


@needs_torchao
def test_first_and_last_and_odd_sizes_stay_unless_a_filter_says_so():
    model = nn.Sequential(nn.Linear(16, 32), nn.Linear(32, 20), nn.Linear(20, 32), nn.Linear(32, 32), nn.Linear(32, 16))
    fp8.Float8(AORecipeKwargs(), CPU).convert(model)
    assert in_float8(model) == ["3"]
    chosen = copy.deepcopy(model)
    assert in_float8(chosen) == []
    fp8.Float8(AORecipeKwargs(module_filter_func=lambda layer, name: name in "01"), CPU).convert(chosen)
    assert in_float8(chosen) == ["0", "1"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fp8.Float8(AORecipeKwargs(), CPU).convert(nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16)))
    assert "no linear layer of Sequential computes in float8" in str(caught[0].message)


@needs_torchao
def test_only_the_autocast_region_computes_in_float8():
    model, x = deep(), torch.randn(5, 6)
    expected = model(x)
    fp8.Float8(AORecipeKwargs(), CPU).convert(model)
    assert_identical(model(x), expected)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = model(x)
        with torch.autocast("cpu", enabled=False):
            assert_identical(model(x), expected)
        plain = copy.deepcopy(model)(x)
    assert low.dtype is torch.bfloat16 and not torch.equal(low, plain)
    assert_close(low.float().detach(), expected.detach(), 0.1)


@needs_torchao
def test_the_model_stays_what_it_was():
    def program(trainer):
        model = deep()
        parts, keys = list(model), list(model.state_dict())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        assert trainer.prepare(model, optimizer) == (model, optimizer)
        assert in_float8(model) == ["2", "4"] and trainer.unwrap_model(model) is model
        assert list(model) == parts and all(type(model[at]) is nn.Linear for at in (0, 2, 4, 6))
        state = trainer.get_state_dict(model)
        assert list(state) == keys and all(
            type(value) is torch.Tensor and value.dtype is torch.float32 for value in state.values()
        )
        stored = pickle.dumps(model)
        assert b"fp8" not in stored and in_float8(pickle.loads(stored)) == in_float8(copy.deepcopy(model)) == []
        return {}

    accelerated(program, 2, mixed_precision="fp8")


@needs_torchao
@pytest.mark.parametrize("recipe", [None, "rowwise_with_gw_hp"])
def test_losses_are_near_full_precision_and_one_process(recipe):
    handlers = [AORecipeKwargs(config=recipe)]
    full = plain(transformer)
    (one,) = accelerated(transformer, 1, mixed_precision="fp8", kwargs_handlers=handlers)
    assert_close(one["losses"], full["losses"], 2e-2)
    assert any(a != b for a, b in zip(one["losses"], full["losses"], strict=True))
    for got in accelerated(transformer, 2, mixed_precision="fp8", kwargs_handlers=handlers):
        assert_close(got["losses"], one["losses"], 2e-2)
        assert_close(got["norms"], one["norms"], 0.1)


@needs_torchao
@pytest.mark.parametrize(
    "settings",
    [{"fsdp_plugin": FullyShardedDataParallelPlugin()}, {"parallelism_config": ParallelismConfig(tp_size=2)}],
    ids=["fsdp", "tp"],
)
def test_models_spread_over_processes(settings):
    (one,) = accelerated(transformer, 1, mixed_precision="fp8")
    for got in accelerated(transformer, 2, mixed_precision="fp8", **settings):
        assert_close(got["losses"], one["losses"], 2e-2)
        assert list(got["weights"]) == list(one["weights"])
        assert all(type(value) is torch.Tensor for value in got["weights"].values())


def products(n: int, recipe: AORecipeKwargs) -> dict[str, torch.Tensor]:
    """Output and gradients of one layer in float8, for a batch of which `n` processes have unlike parts; no bfloat16 around it."""

    def body():
        world = Accelerator(cpu=True).world
        float8 = fp8.Float8(recipe, CPU, (world, Tracker()) if n > 1 else None)
        seed()
        layer, x, target = nn.Linear(32, 16), torch.randn(8, 32) * torch.logspace(-1, 1, 8)[:, None], torch.randn(8, 16)
        rows = slice(world.rank * 8 // n, (world.rank + 1) * 8 // n)
        mine = x[rows].requires_grad_()
        y = float8.linear(mine, layer.weight, layer.bias)
        F.mse_loss(y, target[rows]).backward()
        return {"y": y.detach(), "x": mine.grad / n, "weight": layer.weight.grad / n, "bias": layer.bias.grad / n}

    parts = run_ranks(body, n)
    whole = {key: sum(part[key] for part in parts) for key in ("weight", "bias")}
    return {key: torch.cat([part[key] for part in parts]) for key in ("y", "x")} | whole


@needs_torchao
@pytest.mark.parametrize("recipe", [None, "rowwise_with_gw_hp"])
def test_scales_are_those_of_the_whole_batch(recipe):
    assert_close(products(2, AORecipeKwargs(config=recipe)), products(1, AORecipeKwargs(config=recipe)), 1e-6)


@needs_torchao
def test_scales_of_the_own_part_round_otherwise():
    local, one = products(2, AORecipeKwargs(global_scales=False)), products(1, AORecipeKwargs())
    assert (local["y"] - one["y"]).norm() > 1e-3 * one["y"].norm()


@needs_torchao
@pytest.mark.parametrize("settings", [{}, {"fsdp_plugin": FullyShardedDataParallelPlugin()}], ids=["ddp", "fsdp"])
def test_a_saved_state_goes_on_as_if_nothing_had_happened(tmp_path, settings):
    def train(trainer, epochs, load=None, save=None):
        model = deep()
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(data(13), 4))
        if load:
            trainer.load_state(str(load))
        losses = []
        for _ in range(epochs):
            for x, y in loader:
                with trainer.autocast():
                    loss = F.mse_loss(model(x), y)
                trainer.backward(loss)
                trainer.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                losses.append(trainer.global_mean(loss).item())
        if save:
            trainer.save_state(str(save))
        return {"losses": losses, "weights": {k: v.clone() for k, v in trainer.get_state_dict(model).items()}}

    at = tmp_path / "state"
    through = accelerated(lambda trainer: train(trainer, 2), 2, mixed_precision="fp8", **settings)
    accelerated(lambda trainer: train(trainer, 1, save=at), 2, mixed_precision="fp8", **settings)
    resumed = accelerated(lambda trainer: train(trainer, 1, load=at), 2, mixed_precision="fp8", **settings)
    assert_identical(resumed[0]["losses"], through[0]["losses"][-4:])
    assert_identical(resumed[0]["weights"], through[0]["weights"])


@needs_torchao
@pytest.mark.parametrize("settings", [{}, {"fsdp_plugin": FullyShardedDataParallelPlugin()}], ids=["ddp", "fsdp"])
def test_per_process_mode_runs_the_forward_in_float8_and_returns_float32(settings):
    def program(trainer):
        model = trainer.prepare(deep())
        seen = []
        model[4].register_forward_hook(lambda module, args, output: seen.append(str(output.dtype)))
        out = model(data(4).tensors[0])
        trainer.backward(out.square().mean())
        return {
            "seen": seen,
            "out": str(out.dtype),
            "converted": in_float8(model),
            "shared": trainer.float8.session is not None,
        }

    for got in accelerated(program, 2, mixed_precision="fp8", split_batches=False, **settings):
        assert without_streams(got) == {
            "seen": ["torch.bfloat16"],
            "out": "torch.float32",
            "converted": ["2", "4"],
            "shared": False,
        }
