"""BatchNorm over the global batch equals one process: losses, weights, running statistics."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, update_bn
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


@pytest.mark.parametrize("grad", [True, False])
def test_a_batch_that_all_processes_hold_whole(grad):
    def program(trainer):
        model = trainer.prepare(MODELS["1d"]())
        with torch.set_grad_enabled(grad):
            out = model(data(5).tensors[0]).detach()
        model.eval()
        return {"out": out, "evaluated": model(data(5).tensors[0]).detach(), "weights": weights(model)}

    assert_same_training(program, 3)


def test_evaluation_stays_local():
    def program(trainer):
        model = trainer.prepare(MODELS["1d"]()).eval()
        if trainer.is_main_process:
            model(data(5).tensors[0])
        return {}

    accelerated(program, 2)


@pytest.mark.parametrize("n", [2, 3])
def test_update_bn_of_an_average(n):
    def program(trainer):
        model = MODELS["1d"]()
        average, teacher = AveragedModel(model), copy.deepcopy(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(data(18), 4, shuffle=True))
        for x, y in loader:
            optimizer.zero_grad()
            trainer.backward(F.mse_loss(model(x), y))
            optimizer.step()
            average.update_parameters(model)
        update_bn(loader, average)
        update_bn(loader, model)
        with torch.no_grad():
            for x, _ in loader:
                teacher(x + 0.1)
        return {"average": weights(average), "model": weights(model), "teacher": weights(teacher)}

    assert_same_training(program, n, tolerance=1e-4)


@pytest.mark.parametrize("n", [2, 3])
def test_pseudo_targets_without_gradients(n):
    def program(trainer):
        model = MODELS["1d"]()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(data(14), 4, shuffle=True))
        losses = []
        for x, y in loader:
            with torch.no_grad():
                targets = model(x + 0.1)
                noise = model(trainer.draw(torch.randn, len(x), 6))
            loss = F.mse_loss(model(x), y) + F.mse_loss(model(x), targets + noise)
            optimizer.zero_grad()
            trainer.backward(loss)
            optimizer.step()
            losses.append(trainer.global_mean(loss).item())
        return {"losses": losses, "weights": weights(model)}

    assert_same_training(program, n, tolerance=1e-4)


class FunctionalNorm(nn.Module):
    """A layer that calls `F.batch_norm` itself."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("variance", torch.ones(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(x, self.mean, self.variance, training=self.training)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_functional_batch_norm(n):
    model = lambda: nn.Sequential(nn.Linear(6, 8), FunctionalNorm(8), nn.Tanh(), nn.Linear(8, 1))  # noqa: E731
    assert_same_training(lambda trainer: fit(trainer, model(), DataLoader(data(14), 4, shuffle=True)), n, tolerance=1e-4)


def test_functional_batch_norm_over_other_channels_stays_local():
    def program(trainer):
        trainer.prepare(FunctionalNorm(8))
        rows = 2 + (0 if trainer.num_processes == 1 else trainer.process_index)
        x = torch.arange(6.0 * rows).view(1, 2 * rows, 3)
        F.batch_norm(x, torch.zeros(2).repeat(rows), torch.ones(2).repeat(rows), training=True)
        return {}

    accelerated(program, 2)


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
