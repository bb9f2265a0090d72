"""Gradients that travel compressed, and processes that average now and then."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader

from accel_runtime import DistributedDataParallelKwargs, FullyShardedDataParallelPlugin, LocalSGD
from accel_runtime.strategies import Settings
from accel_runtime.strategies.ddp import _compression

from .training import accelerated, assert_close, data, fit, mlp, plain, weights


def compressed(hook, n=2, wrapper="no", **options):
    handler = DistributedDataParallelKwargs(comm_hook=hook, comm_wrapper=wrapper, comm_state_option=options)
    return accelerated(lambda trainer: fit(trainer, DataLoader(data(26), 4, shuffle=True)), n, kwargs_handlers=[handler])


@pytest.mark.parametrize("hook", ["power_sgd", "batched_power_sgd"])
def test_factors_of_full_rank_are_the_gradients(hook):
    expected = plain(lambda trainer: fit(trainer, DataLoader(data(26), 4, shuffle=True)))
    for got in compressed(hook, matrix_approximation_rank=8, start_powerSGD_iter=0, min_compression_rate=0):
        assert_close(got["weights"], expected["weights"], 1e-5)


@pytest.mark.parametrize("wrapper", ["no", "bf16"])
def test_factors_of_rank_one_keep_close_and_weights_equal(wrapper):
    first, second = compressed("power_sgd", 2, wrapper, start_powerSGD_iter=2, min_compression_rate=0)
    expected = plain(lambda trainer: fit(trainer, DataLoader(data(26), 4, shuffle=True)))
    assert_close(torch.tensor(first["losses"]), torch.tensor(expected["losses"]), 0.1)
    assert all(torch.equal(first["weights"][key], value) for key, value in second["weights"].items())


def test_it_begins_when_told():
    expected = plain(lambda trainer: fit(trainer, DataLoader(data(26), 4, shuffle=True)))
    for got in compressed("power_sgd", min_compression_rate=0):
        assert_close(got["weights"], expected["weights"], 1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"comm_hook": "fp8"}, "comm_hook is 'fp8': it must be one of 'no', 'fp16', 'bf16', 'power_sgd'"),
        ({"comm_wrapper": "int8"}, "comm_wrapper is 'int8'"),
        ({"comm_hook": "power_sgd", "comm_state_option": {"rank": 2}}, "comm_state_option has rank"),
        ({"comm_hook": "power_sgd", "comm_state_option": {"matrix_approximation_rank": 0}}, "matrix_approximation_rank is 0"),
    ],
)
def test_mistakes(settings, message):
    with pytest.raises(ValueError, match=message):
        _compression(Settings(gradients=DistributedDataParallelKwargs(**settings)).gradients)


def local(trainer, every, enabled=True):
    model, loader = trainer.prepare(mlp(), DataLoader(data(16), 4))
    optimizer = trainer.prepare(torch.optim.SGD(model.parameters(), lr=0.1))
    between = []
    with LocalSGD(trainer, model, every, enabled) as averaging:
        for x, y in loader:
            optimizer.zero_grad()
            trainer.backward(F.mse_loss(model(x), y))
            optimizer.step()
            averaging.step()
            between.append(model[0].weight.detach().clone())
    return {"weights": weights(model), "between": between}


def test_weights_meet_every_so_many_steps_and_at_the_end():
    first, second = accelerated(lambda trainer: local(trainer, 3), 2)
    assert [torch.equal(a, b) for a, b in zip(first["between"], second["between"], strict=True)] == [False, False, True, False]
    assert all(torch.equal(first["weights"][key], value) for key, value in second["weights"].items())


def test_averaging_after_each_step_of_sgd_is_averaging_gradients():
    expected, _ = accelerated(lambda trainer: local(trainer, 1, enabled=False), 2)
    for got in accelerated(lambda trainer: local(trainer, 1), 2):
        assert_close(got["weights"], expected["weights"], 1e-5)


def test_local_sgd_needs_whole_models():
    def program(trainer):
        with pytest.raises(ValueError, match="LocalSGD needs whole models"):
            LocalSGD(trainer, mlp(), 2)
        return {}

    accelerated(program, 2, fsdp_plugin=FullyShardedDataParallelPlugin())
