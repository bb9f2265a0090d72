"""DeepSpeed's ZeRO behind the script's own objects: settings, messages, and the losses of one process."""

from __future__ import annotations

import importlib.util
import json
import types

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from accel_runtime import Accelerator, DeepSpeedPlugin, FullyShardedDataParallelPlugin, MegatronLMPlugin
from accel_runtime.deepspeed_plugin import filled, understood
from accel_runtime.state import AcceleratorState

from .networks import Transformer, convolutional, fit_network, images, sentences, whole
from .training import accelerated, assert_close, assert_same_training, data, mlp, seed

FACTS = {"processes": 4, "steps": 2, "micro_batch": 8, "precision": "bf16", "exact": False, "hidden": 64}
needs_deepspeed = pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None, reason="needs deepspeed")


@pytest.fixture(autouse=True)
def forgotten():
    yield
    AcceleratorState._reset_state(True)


@pytest.fixture
def found(monkeypatch):
    """As if DeepSpeed were installed."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, package=None: types.SimpleNamespace(name=name))


def test_fields_make_a_configuration():
    config = filled(DeepSpeedPlugin(zero_stage=3, gradient_clipping=1.0, offload_param_device="cpu"), **FACTS)
    assert config["zero_optimization"] == {"stage": 3, "offload_param": {"device": "cpu"}}
    assert (
        config["train_micro_batch_size_per_gpu"],
        config["gradient_accumulation_steps"],
        config["train_batch_size"],
    ) == (8, 2, 64)
    assert config["gradient_clipping"] == 1.0 and config["bf16"] == {"enabled": True} and "fp16" not in config


def test_every_auto_of_a_file_is_filled_in(tmp_path):
    automatic = {
        "fp16": {"enabled": "auto", "loss_scale": 0},
        "bf16": {"enabled": "auto"},
        "optimizer": {"type": "AdamW", "params": {"lr": "auto"}},
        "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto", "stage3_param_persistence_threshold": "auto"},
        "gradient_accumulation_steps": "auto",
        "gradient_clipping": "auto",
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
    }  # fmt: skip
    path = tmp_path / "ds.json"
    path.write_text(json.dumps(automatic))
    config = filled(DeepSpeedPlugin(hf_ds_config=str(path)), **FACTS)
    assert "auto" not in json.dumps(config) and "optimizer" not in config
    assert config["fp16"]["enabled"] is False and config["bf16"]["enabled"] is True
    assert config["zero_optimization"] == {
        "stage": 3,
        "reduce_bucket_size": 4096,
        "stage3_prefetch_bucket_size": 3686,
        "stage3_param_persistence_threshold": 640,
    }
    with pytest.raises(ValueError, match=r'"auto" for aio\.block_size'):
        filled(DeepSpeedPlugin(hf_ds_config={"aio": {"block_size": "auto"}}), **FACTS)


def test_exact_mode_leaves_weights_in_their_type_unless_told():
    exactly = {**FACTS, "exact": True}
    assert "bf16" not in filled(DeepSpeedPlugin(), **exactly)
    assert filled(DeepSpeedPlugin(hf_ds_config={"bf16": {"enabled": "auto"}}), **exactly)["bf16"]["enabled"] is True
    assert filled(DeepSpeedPlugin(), **{**exactly, "precision": "fp16"})["fp16"]["enabled"] is True


def test_ways_to_give_it(found, tmp_path, monkeypatch):
    path = tmp_path / "ds.json"
    path.write_text('{"zero_optimization": {"stage": 1}}')
    given = [
        {"zero_stage": 1, "gradient_accumulation_steps": 4},
        {"zero_optimization": {"stage": 1}},
        path,
        DeepSpeedPlugin(zero_stage=1),
    ]
    assert [understood(way).zero_stage for way in given] == [1, 1, 1, 1]
    assert understood(given[0]).steps == 4 and understood(None) is None
    monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
    monkeypatch.setenv("ACCELERATE_DEEPSPEED_ZERO_STAGE", "3")
    assert understood(None).zero_stage == 3
    monkeypatch.setenv("ACCELERATE_DEEPSPEED_CONFIG_FILE", str(path))
    assert understood(None).zero_stage == 1
    assert DeepSpeedPlugin().get_value("zero_optimization.stage") == 1 and DeepSpeedPlugin().get_value("a.b", 5) == 5


def test_without_the_package_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, package=None: None)
    AcceleratorState._reset_state(True)
    with pytest.raises(ImportError, match="pip install deepspeed"):
        Accelerator(cpu=True, deepspeed_plugin={"zero_stage": 2, "gradient_accumulation_steps": 4})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DeepSpeedPlugin(zero_stage=4), "zero_stage is '4': it must be one of 0, 1, 2, 3"),
        (lambda: DeepSpeedPlugin(offload_param_device="disk"), "offload_param_device is 'disk'"),
        (lambda: DeepSpeedPlugin(hf_ds_config="/no/such.json"), "cannot be read"),
        (lambda: understood(3), "it must be a DeepSpeedPlugin, a dict, or the path"),
        (lambda: Accelerator(cpu=True, deepspeed_plugin={"zero_stage": 1}, fsdp_plugin=FullyShardedDataParallelPlugin()), "both given"),
        (lambda: Accelerator(cpu=True, deepspeed_plugin={"zero_stage": 1, "gradient_accumulation_steps": 4}, gradient_accumulation_steps=2), "give one of them"),
    ],
)  # fmt: skip
def test_mistakes(found, make, message):
    AcceleratorState._reset_state(True)
    with pytest.raises(ValueError, match=message):
        make()


def test_one_process_is_plain_training(found):
    AcceleratorState._reset_state(True)
    accelerator = Accelerator(cpu=True, deepspeed_plugin={"zero_stage": 2, "gradient_accumulation_steps": 4})
    assert accelerator.gradient_accumulation_steps == 4 and accelerator.state.deepspeed_plugin.zero_stage == 2
    model = mlp()
    assert accelerator.prepare(model) is model


def test_degrees_of_megatron():
    plugin = MegatronLMPlugin(tp_degree=2, use_distributed_optimizer=True, recompute_activations=True)
    sizes = plugin.parallelism(6)
    assert (sizes.tp_size, sizes.dp_shard_size, sizes.dp_replicate_size) == (2, 3, 1)
    assert plugin.sharding().activation_checkpointing and MegatronLMPlugin().sharding() is None
    assert MegatronLMPlugin(tp_degree=2).parallelism(6).dp_replicate_size == 3
    with pytest.raises(ValueError, match="tp_degree is 2 and there are 3 processes"):
        plugin.parallelism(3)
    with pytest.raises(ValueError, match="tp_degree is 2 and pp_degree 2: pipelines of split layers are not offered"):
        MegatronLMPlugin(tp_degree=2, pp_degree=2)
    sizes = MegatronLMPlugin(pp_degree=2).parallelism(4)
    assert (sizes.pp_size, sizes.tp_size, sizes.dp_replicate_size) == (2, 1, 2)
    with pytest.warns(UserWarning, match=r"num_micro_batches changes nothing: use gradient_accumulation_steps"):
        MegatronLMPlugin(num_micro_batches=4)


def test_megatron_trains_as_one_process_does():
    assert_same_training(
        lambda trainer: fit_network(trainer, Transformer(), sentences()),
        2,
        1e-4,
        megatron_lm_plugin=MegatronLMPlugin(tp_degree=2),
    )


def zero(program, stage, n=2, tolerance=1e-4, **settings):
    assert_same_training(program, n, tolerance, deepspeed_plugin={"zero_stage": stage}, **settings)


@needs_deepspeed
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_a_transformer(stage):
    def program(trainer):
        model = Transformer()
        if stage == 3:
            model.scale = nn.Parameter(torch.ones(1))
        return fit_network(trainer, model, sentences())

    zero(program, stage)


@needs_deepspeed
def test_a_convolutional_net_on_three():
    zero(lambda trainer: fit_network(trainer, convolutional(), images()), 2, n=3)


class Twofold(nn.Module):
    """Trained through a method, by two losses, with a layer that is not used."""

    def __init__(self):
        super().__init__()
        self.body, self.spare = mlp(out=2), nn.Linear(3, 3)

    def losses(self, x, y):
        out = self.body(x)
        return F.mse_loss(out[:, :1], y), F.l1_loss(out[:, 1:], y)


@needs_deepspeed
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_method_and_accumulation(stage):
    def program(trainer):
        model = Twofold()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.0)
        model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(data(16), 4))
        losses = []
        for step, (x, y) in enumerate(loader):
            first, second = model.losses(x, y)
            last = step % 2 == 1
            loss = (first + second) / 2
            if last:
                trainer.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            elif hasattr(trainer, "no_sync"):
                with trainer.no_sync():
                    trainer.backward(loss)
            else:
                loss.backward()
            losses.append(trainer.global_mean(loss).item())
        return {"losses": losses, "weights": whole(trainer, model)}

    zero(program, stage)


@needs_deepspeed
@pytest.mark.parametrize("stage", [2, 3])
def test_states_load_into_plain_objects_and_back(stage):
    """Five steps, of which the last two go on from the states of the first three, in new objects."""

    def steps(trainer, model, optimizer, batches):
        for x, y in batches:
            trainer.backward(F.mse_loss(model(x), y))
            optimizer.step()
            optimizer.zero_grad()

    def program(trainer):
        x, y = data(20).tensors
        batches = [(x[i : i + 4], y[i : i + 4]) for i in range(0, 20, 4)]
        mine = batches if trainer.num_processes == 1 else [trainer.shard_batch(batch) for batch in batches]
        model = mlp()
        model, optimizer = trainer.prepare(model, torch.optim.AdamW(model.parameters(), lr=0.01))
        steps(trainer, model, optimizer, mine[:3])
        kept = whole(trainer, model), whole(trainer, optimizer)
        seed(5)
        fresh = mlp()
        again = torch.optim.AdamW(fresh.parameters(), lr=0.01)
        fresh, again = trainer.prepare(fresh, again)
        fresh.load_state_dict(kept[0])
        again.load_state_dict(kept[1])
        steps(trainer, fresh, again, mine[3:])
        return {"weights": whole(trainer, fresh), "moments": whole(trainer, again)["state"][0]}

    zero(program, stage)


@needs_deepspeed
@pytest.mark.parametrize("stage", [1, 3])
def test_optimizers_that_have_stepped_before(stage):
    def program(trainer):
        x, y = data(8).tensors
        model = mlp()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        F.mse_loss(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        model, optimizer = trainer.prepare(model, optimizer)
        part = trainer.shard_batch((x, y))
        trainer.backward(F.mse_loss(model(part[0]), part[1]))
        optimizer.step()
        return {"weights": whole(trainer, model)}

    zero(program, stage)


@needs_deepspeed
def test_saved_states_go_on(tmp_path):
    def program(trainer, folder, resume):
        x, y = data(16).tensors
        model = mlp()
        model, optimizer, loader = trainer.prepare(
            model, torch.optim.AdamW(model.parameters(), lr=0.01), DataLoader(data(16), 4)
        )
        if resume:
            trainer.load_state(folder)
        for step, (x, y) in enumerate(loader):
            trainer.backward(F.mse_loss(model(x), y))
            optimizer.step()
            optimizer.zero_grad()
            if step == 1 and not resume:
                trainer.save_state(folder)
        return {"weights": whole(trainer, model)}

    first = accelerated(lambda trainer: program(trainer, tmp_path / "a", False), 2, deepspeed_plugin={"zero_stage": 2})
    later = accelerated(lambda trainer: program(trainer, tmp_path / "a", True), 2, deepspeed_plugin={"zero_stage": 2})
    assert_close(later[0]["weights"], first[0]["weights"], 1e-6)


@needs_deepspeed
def test_what_it_cannot_do_says_so():
    def program(trainer):
        model, other = mlp(), mlp()
        both = torch.optim.SGD([*model.parameters(), *other.parameters()], lr=0.1)
        with pytest.raises(ValueError, match="an optimizer trains the weights of one prepared model"):
            trainer.prepare(model, other, both)
        model, _ = trainer.prepare(model, torch.optim.AdamW(model.parameters()))
        with pytest.raises(ValueError, match="has an optimizer already"):
            trainer.prepare(torch.optim.AdamW(model.parameters()))
        with pytest.raises(ValueError, match="create_graph=True"):
            trainer.backward(model(torch.ones(2, 6)).sum(), create_graph=True)
        with pytest.raises(ValueError, match="use clip_grad_norm_"):
            trainer.clip_grad_value_(model.parameters(), 1.0)
        return {}

    def scalars(trainer):
        model = Transformer()
        with pytest.raises(ValueError, match="scale of Transformer is a single number"):
            trainer.prepare(model, torch.optim.AdamW(model.parameters()))
        return {}

    accelerated(program, 2, deepspeed_plugin={"zero_stage": 2})
    accelerated(scalars, 2, deepspeed_plugin={"zero_stage": 3})
