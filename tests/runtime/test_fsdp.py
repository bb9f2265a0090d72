"""Fully sharded data parallel: the same script, the losses and weights of one process."""

from __future__ import annotations

import copy
import io
import warnings

import pytest
import torch
import torch.distributed.fsdp  # once here instead of in every child
import torch.distributed.tensor
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from accel_runtime import FullyShardedDataParallelPlugin, GradScalerKwargs, precision
from accel_runtime.state import DistributedType

from . import test_accumulation, test_exact_batchnorm
from . import test_exact_training as exact
from .networks import Transformer, convolutional, fit_network, images, sentences, whole
from .ranks import RanksFailed
from .training import accelerated, assert_close, assert_same_training, data, mlp, plain, weights


def sharded(program, n, tolerance=1e-4, env=None, **settings):
    """`program` trains under the plugin's settings as by hand."""
    plugin = FullyShardedDataParallelPlugin(**settings)
    assert_same_training(program, n, tolerance, fsdp_plugin=plugin, **({"env": env} if env else {}))


def transformer(trainer):
    return fit_network(trainer, Transformer(), sentences())


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_transformer(n):
    sharded(transformer, n)


@pytest.mark.parametrize(
    "settings",
    [
        {"sharding_strategy": "SHARD_GRAD_OP"},
        {"auto_wrap_policy": "no_wrap"},
        {"auto_wrap_policy": "transformer_based_wrap", "transformer_cls_names_to_wrap": "Block"},
        {"auto_wrap_policy": "size_based_wrap", "min_num_params": 300},
        {"activation_checkpointing": True},
        {"cpu_offload": True, "ignored_modules": r"blocks\.0\.norm\d"},
    ],
    ids=lambda settings: "-".join(str(v) for v in settings.values()),
)
def test_settings(settings):
    sharded(transformer, 2, **settings)


class InPlace(nn.Module):
    """Ends in a linear layer on sequences, as its blocks do, whose outputs are therefore views; [n, length] -> [n, length, 8]."""

    def __init__(self, blocks):
        super().__init__()
        self.embedding = nn.Embedding(8, 6)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Tanh(), nn.Linear(6, 6)) for _ in range(blocks))
        self.head = nn.Linear(6, 8)

    def forward(self, tokens):
        hidden = self.embedding(tokens)
        for block in self.blocks:
            hidden = block(hidden)
            hidden *= 0.7
        return self.head(hidden)


@pytest.mark.parametrize("blocks", [0, 2])
def test_outputs_that_are_views_may_be_changed_in_place(blocks):
    def program(trainer):
        model = InPlace(blocks)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        model, optimizer = trainer.prepare(model, optimizer)
        losses = []
        for batch in torch.randint(0, 8, (4, 4, 5)):
            tokens = trainer.shard_batch(batch)
            output = model(tokens)
            assert output._base is not None
            output.div_(2)
            loss = F.cross_entropy(output.flatten(0, 1), tokens.flatten())
            optimizer.zero_grad()
            trainer.backward(loss)
            optimizer.step()
            losses.append(float(trainer.global_mean(loss)))
        return {"losses": losses, "weights": whole(trainer, model)}

    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*returned a view tensor")
        sharded(program, 2)


@pytest.mark.parametrize("strategy", ["HYBRID_SHARD", "HYBRID_SHARD_ZERO2"])
def test_hybrid_on_two_machines_of_two(strategy):
    sharded(transformer, 4, env={"LOCAL_WORLD_SIZE": "2"}, sharding_strategy=strategy)


def test_replicated():
    sharded(transformer, 2, sharding_strategy="NO_SHARD")


def test_a_convolutional_net_with_statistics_of_the_global_batch():
    sharded(lambda trainer: fit_network(trainer, convolutional(), images()), 3)


WAYS = {
    "sums": lambda n: exact.test_summed_losses(n),
    "weights": lambda n: exact.test_ignored_targets_and_class_weights(True, n),
    "nan where nothing counts": lambda n: exact.test_a_loss_that_is_nan_where_nothing_counts_poisons_nothing(n),
    "two optimizers": lambda n: exact.test_gan(n),
    "two models": lambda n: exact.test_two_models_under_one_loss(n),
    "a method": lambda n: exact.test_training_through_a_custom_method_with_unused_parameters(False, n),
    "raw backward": lambda n: exact.test_training_through_a_custom_method_with_unused_parameters(True, n),
    "some samples": lambda n: exact.test_parameters_used_by_some_samples_only(n),
    "frozen": lambda n: exact.test_layers_frozen_and_unfrozen_on_the_way(n),
    "sparse": lambda n: exact.test_sparse_gradients(n),
    "added parameters": lambda n: exact.test_a_parameter_group_added_after_prepare(n),
    "a failed backward": lambda n: exact.test_early_exit_from_a_loop_and_a_failed_backward_leave_nothing_behind(),
    "parts called one by one": lambda n: exact.test_gradient_checkpointing_with_a_tied_weight(),
    "windows": lambda n: test_accumulation.test_windows(3, "last", n),
    "a scheduler and windows": lambda n: test_accumulation.test_a_scheduler_per_epoch_ticks_after_an_open_window(n),
    "batchnorm without samples": lambda n: test_exact_batchnorm.test_processes_without_samples(n),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_train(way, monkeypatch):
    """The programs of data parallel training, as they stand, with nothing but an environment variable."""
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    WAYS[way](3)


def test_a_recurrent_net():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.cells, self.head = nn.LSTM(6, 5, batch_first=True), nn.Linear(5, 1)

        def forward(self, x):
            return self.head(self.cells(x[:, None])[0][:, 0])

    def program(trainer):
        model = Recurrent()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(data(13), 4))
        for x, y in loader:
            optimizer.zero_grad()
            trainer.backward(F.mse_loss(model(x), y))
            optimizer.step()
        return {"weights": weights(model)}

    sharded(program, 3)


def test_states_are_plain_and_come_back():
    """Optimizer states from before `prepare` count; whole states load into sharded models and into the original script's."""

    def program(trainer):
        model = Transformer()
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        for tokens, targets in DataLoader(sentences(), 13):
            F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten()).backward()
            optimizer.step()
            optimizer.zero_grad()
        first = fit_network(trainer, model, sentences(), optimizer, epochs=1)
        kept = copy.deepcopy({"model": whole(trainer, model), "optimizer": whole(trainer, optimizer)})
        buffer = io.BytesIO()
        torch.save(kept, buffer)
        second = fit_network(trainer, model, sentences(), optimizer, epochs=1)
        model.load_state_dict(kept["model"])
        optimizer.load_state_dict(copy.deepcopy(kept["optimizer"]))
        again = fit_network(trainer, model, sentences(), optimizer, epochs=1)
        assert again["losses"] == second["losses"]
        buffer.seek(0)
        by_hand = Transformer()
        by_hand.load_state_dict(torch.load(buffer)["model"])
        torch.optim.AdamW(by_hand.parameters()).load_state_dict(kept["optimizer"])
        return {"first": first, "second": second, "optimizer": kept["optimizer"], "model": kept["model"]}

    sharded(program, 2)


def test_weights_on_the_meta_device_come_from_the_main_process():
    def program(trainer):
        with torch.device("cpu" if trainer.is_main_process else "meta"):
            model = Transformer()
        assert trainer.is_main_process or model.norm.weight.is_meta
        return fit_network(trainer, model, sentences())

    sharded(program, 2, activation_checkpointing=True)


@pytest.mark.parametrize("n", [1, 2])
def test_weights_on_the_meta_device_everywhere_are_initialised(n):
    def program(trainer):
        with torch.device("meta"):
            model = mlp()
        trainer.prepare(model)
        return {"weights": whole(trainer, model)}

    expected = plain(lambda _: {"weights": weights(mlp())})["weights"]
    for got in accelerated(program, n, fsdp_plugin=FullyShardedDataParallelPlugin()):
        assert_close(got["weights"], expected)


def test_a_batch_of_processes_has_the_type_of_the_mixed_precision():
    """Per process, as in Accelerate: weights compute in bfloat16 and are kept in float32; outputs are float32."""

    def program(trainer):
        seen = []
        model = mlp()
        model[1].register_forward_hook(lambda module, args, out: seen.append(str(out.dtype)))
        model, loader = trainer.prepare(model, DataLoader(data(8), 4))
        for x, y in loader:
            out = model(x)
            trainer.backward(F.mse_loss(out.float(), y))
        assert trainer.distributed_type is DistributedType.FSDP
        return {
            "seen": seen[0],
            "out": str(out.dtype),
            "kept": str(model[0].weight.dtype),
            "grad": str(model[0].weight.grad.dtype),
        }

    for policy, out in (
        (None, "float32"),
        ("bf16", "bfloat16"),
        ({"param_dtype": "bf16", "reduce_dtype": torch.float32, "output_dtype": torch.float32}, "float32"),
    ):
        plugin = FullyShardedDataParallelPlugin(mixed_precision_policy=policy)
        for got in accelerated(program, 2, mixed_precision="bf16", split_batches=False, fsdp_plugin=plugin):
            assert (got["seen"], got["out"], got["kept"], got["grad"]) == (
                "torch.bfloat16",
                f"torch.{out}",
                "torch.float32",
                "torch.float32",
            )


def test_fp16_and_a_parameter_that_is_not_sharded(monkeypatch):
    monkeypatch.setattr(precision, "WITHOUT_FP16", frozenset())
    settings = {"mixed_precision": "fp16", "kwargs_handlers": [GradScalerKwargs(init_scale=64.0)]}
    got = accelerated(transformer, 2, fsdp_plugin=FullyShardedDataParallelPlugin(), **settings)
    expected = accelerated(transformer, 1, **settings)[0]
    for result in got:
        assert_close(result["losses"], expected["losses"], 5e-3)


def test_windows_without_communication():
    """Inside a window no gradient travels, and leftovers of an abandoned one are cleared by the optimizer."""

    def program(trainer):
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(data(12), 6))
        (x, y), _ = loader
        with trainer.no_sync(model) if hasattr(trainer, "no_sync") else torch.enable_grad():
            trainer.backward(F.mse_loss(model(x), y))
        optimizer.zero_grad()
        trainer.backward(F.mse_loss(model(x), y))
        optimizer.step()
        return {"weights": weights(model)}

    sharded(program, 2)


def refused(message, program, **settings):
    with pytest.raises(RanksFailed, match=message):
        accelerated(program, 2, fsdp_plugin=FullyShardedDataParallelPlugin(**settings))


def test_what_cannot_be_says_so():
    shared = nn.Linear(6, 6)
    refused(
        "0.weight of Sequential is a part of another prepared model",
        lambda t: t.prepare(nn.Sequential(shared), nn.Sequential(shared)),
    )
    refused("LBFGS looks at all weights", lambda t: t.prepare(m := mlp(), torch.optim.LBFGS(m.parameters())))
    refused(
        "has no such modules: it has Block",
        lambda t: t.prepare(Transformer()),
        transformer_cls_names_to_wrap="GPTBlock",
    )
    refused("finds no blocks that repeat", lambda t: t.prepare(mlp()), activation_checkpointing=True)

    def unprepared(trainer):
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        trainer.prepare(model)
        trainer.backward(model(torch.ones(2, 6)).mean())
        optimizer.step()

    refused("SGD was made before the model was sharded", unprepared)

    def second_order(trainer):
        model = trainer.prepare(mlp())
        x = torch.ones(2, 6, requires_grad=True)
        torch.autograd.grad(model(x).sum(), x, create_graph=True)

    refused("second-order gradients need the whole weights", second_order)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sharding_strategy": "HALF"}, "sharding_strategy is 'HALF': it must be one of 'FULL_SHARD'"),
        ({"auto_wrap_policy": "by_hand"}, "auto_wrap_policy is 'BY_HAND'"),
        ({"state_dict_type": "LOCAL_STATE_DICT"}, "state_dict_type is 'LOCAL_STATE_DICT'"),
    ],
)
def test_settings_that_do_not_exist(settings, message):
    with pytest.raises(ValueError, match=message):
        FullyShardedDataParallelPlugin(**settings)


def test_settings_from_the_environment_and_by_torchs_names(monkeypatch):
    from torch.distributed.fsdp import ShardingStrategy, StateDictType

    plugin = FullyShardedDataParallelPlugin(
        sharding_strategy=ShardingStrategy.SHARD_GRAD_OP, state_dict_type=StateDictType.FULL_STATE_DICT
    )
    assert (plugin.sharding_strategy, plugin.reshard_after_forward, plugin.state_dict_type) == (
        "SHARD_GRAD_OP",
        False,
        "FULL_STATE_DICT",
    )
    monkeypatch.setenv("FSDP_SHARDING_STRATEGY", "4")
    monkeypatch.setenv("FSDP_TRANSFORMER_CLS_TO_WRAP", "Block, Layer")
    plugin = FullyShardedDataParallelPlugin(reshard_after_forward=False)
    assert (plugin.sharding_strategy, plugin.transformer_cls_names_to_wrap) == (
        "HYBRID_SHARD_ZERO2",
        ["Block", "Layer"],
    )
