"""Losses that look at the whole batch at once: gathered with gradients they are those of one process."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from .training import accelerated, assert_same_training, data, mlp, weights

NS = [1, 2, 3, 4]


def contrastive(out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = F.normalize(out, dim=1)
    return F.cross_entropy(z @ z.T / 0.1, torch.arange(len(z)))


def root_of_mean(out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.sqrt(F.mse_loss(out, y))


def hardest_rows(out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (out - y).pow(2).mean(1).topk(max(1, len(y) // 2)).values.sum()


def centred(out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return ((out - out.mean(0)) * y).pow(2).mean() + out.pow(2).sum()


@pytest.mark.parametrize("n", NS)
@pytest.mark.parametrize("criterion", [contrastive, root_of_mean, hardest_rows, centred])
def test_any_loss_of_the_whole_batch(criterion, n):
    def program(trainer):
        model = nn.Sequential(mlp(out=3), nn.BatchNorm1d(3), nn.Linear(3, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(data(14), 4, shuffle=True))
        losses = []
        for x, y in (batch for _ in range(2) for batch in loader):
            optimizer.zero_grad()
            out, y = trainer.gather_with_grad((model(x), y.expand(-1, 2)))
            loss = criterion(out, y) + 0.01 * sum(p.pow(2).sum() for p in model.parameters())
            trainer.backward(loss)
            optimizer.step()
            losses.append(loss.item())
        return {"losses": losses, "weights": weights(model)}

    assert_same_training(program, n, tolerance=1e-4)  # BatchNorm amplifies rounding


@pytest.mark.parametrize("n", NS)
def test_one_loss_of_several_whole_batches(n):
    def program(trainer):
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(data(21), 8, shuffle=True))
        losses = []
        for _ in range(3):
            parts = []
            for x, y in loader:
                out, y = trainer.gather_with_grad((model(x), y))
                parts.append(torch.nn.functional.mse_loss(out, y))
            optimizer.zero_grad()
            loss = torch.stack(parts).mean() + 0.01 * sum(p.square().sum() for p in model.parameters())
            trainer.backward(loss)
            optimizer.step()
            losses.append(loss.item())
        return {"losses": losses, "weights": weights(model)}

    assert_same_training(program, n)


@pytest.mark.parametrize("n", NS)
def test_two_views_one_after_another_keep_their_order(n):
    def program(trainer):
        model = mlp(out=3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(data(13), 4, shuffle=True))
        losses = []
        for x, _ in (batch for _ in range(2) for batch in loader):
            optimizer.zero_grad()
            z = F.normalize(trainer.gather_with_grad(model(torch.cat([x, x + 0.1])), in_blocks=True), dim=1)
            half = trainer.global_len(x)
            loss = F.cross_entropy(z @ z.T, (torch.arange(2 * half) + half) % (2 * half))
            trainer.backward(loss)
            optimizer.step()
            with torch.no_grad():
                ahead = trainer.gather_for_metrics(torch.cat([x, -x]), in_blocks=True)
            losses.append(loss.item() + float(ahead[0].sum() - ahead[-1].sum()))
        return {"losses": losses, "weights": weights(model)}

    assert_same_training(program, n, tolerance=1e-4)


@pytest.mark.parametrize("settings", [{}, {"split_batches": False}])
def test_rows_that_are_no_blocks_of_the_batch_are_named(settings):
    def program(trainer):
        loader = trainer.prepare(DataLoader(data(12), 4))
        with pytest.raises(ValueError, match="in_blocks was given 3 rows"):
            for x, _ in loader:
                trainer.gather_for_metrics(torch.cat([x, x])[:3], in_blocks=True)
        return {}

    accelerated(program, 2, **settings)
