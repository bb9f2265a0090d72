"""BatchNorm over the global batch equals one process: losses, weights, running statistics."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from .ranks import RanksFailed
from .training import accelerated, assert_close, assert_same_training, data, plain, weights

MODELS = {
    "1d": lambda: nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)),
    "cumulative": lambda: nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8, momentum=None), nn.Tanh(), nn.Linear(8, 1)),
    "plain": lambda: nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8, affine=False, track_running_stats=False), nn.Linear(8, 1)),
    "2d": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 4, 2), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(8, 1)
    ),
}


def fit(trainer, model, loader, epochs=2):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model, optimizer, loader = trainer.prepare(model, optimizer, loader)
    losses = []
    for _ in range(epochs):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            trainer.backward(loss)
            optimizer.step()
            losses.append(trainer.global_mean(loss).item())
        if any(hasattr(module, "running_mean") and module.running_mean is None for module in model.modules()):
            continue
        model.eval()
        with torch.no_grad():
            losses += [trainer.global_mean(F.mse_loss(model(x), y)).item() for x, y in loader]
    return {"losses": losses, "weights": weights(model)}


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", MODELS)
def test_batchnorm(kind, n):
    assert_same_training(lambda trainer: fit(trainer, MODELS[kind](), DataLoader(data(15), 4, shuffle=True)), n, tolerance=1e-4)


@pytest.mark.parametrize("n", [3, 4])
def test_processes_without_samples(n):
    # batches of 2: some processes only borrow
    assert_same_training(lambda trainer: fit(trainer, MODELS["1d"](), DataLoader(data(6), 2)), n, tolerance=2e-3)


def test_class_keys_copies_and_second_use():
    def program(trainer):
        model = MODELS["1d"]()
        result = fit(trainer, model, DataLoader(data(15), 4))
        assert type(model[1]) is nn.BatchNorm1d
        clone = pickle.loads(pickle.dumps(copy.deepcopy(model)))
        clone.train()
        return {**result, "clone": clone(data(5).tensors[0]).detach()}

    assert_same_training(program, 2, tolerance=1e-4)


def test_sampling_without_gradients_uses_the_own_batch():
    def program(trainer):
        model = trainer.prepare(MODELS["1d"]())
        with torch.no_grad():
            return {"out": model(data(5).tensors[0])}

    for got in accelerated(program, 2):
        assert torch.equal(got["out"], plain(program)["out"])


def test_it_can_be_turned_off():
    program = lambda trainer: fit(trainer, MODELS["1d"](), DataLoader(data(16), 4))  # noqa: E731
    got = accelerated(program, 2, sync_batchnorm=False)[0]
    with pytest.raises(AssertionError):
        assert_close(got["losses"], plain(program)["losses"], 1e-4)


def test_a_prefetched_batch_without_samples_does_not_count_for_the_one_in_use():
    def program(trainer):
        model = MODELS["cumulative"]()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(TensorDataset(*data(9).tensors), 8))
        losses = []
        (x, y), _ahead = list(loader)
        loss = F.mse_loss(model(x), y)
        trainer.backward(loss)
        losses.append(trainer.global_mean(loss).item())
        return {"losses": losses, "weights": weights(model)}

    assert_same_training(program, 2, tolerance=1e-4)


def test_one_value_per_channel_is_refused_as_by_one_process():
    def program(trainer):
        fit(trainer, MODELS["1d"](), DataLoader(data(1), 1))
        return {}

    with pytest.raises(ValueError, match="more than 1 value per channel"):
        plain(program)
    with pytest.raises(RanksFailed, match="more than 1 value per channel"):
        accelerated(program, 2)


def test_second_order_gradients_through_batchnorm():
    def program(trainer):
        model = MODELS["1d"]()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(data(12), 4))
        losses = []
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            gradients = torch.autograd.grad(loss, model[5].parameters(), create_graph=True)
            penalty = sum(g.square().sum() for g in gradients) if trainer.num_processes == 1 else None
            assert all(g.requires_grad for g in gradients)
            del penalty
            trainer.backward(loss)
            optimizer.step()
            losses.append(trainer.global_mean(loss).item())
        return {"losses": losses}

    assert_same_training(program, 2, tolerance=1e-4)
