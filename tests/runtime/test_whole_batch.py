"""Losses that look at the whole batch at once: gathered with gradients they are those of one process."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from .training import assert_same_training, data, mlp, weights

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
        gather = getattr(trainer, "gather_with_grad", lambda rows: rows)
        losses = []
        for _ in range(3):
            parts = []
            for x, y in loader:
                out, y = gather((model(x), y))
                parts.append(torch.nn.functional.mse_loss(out, y))
            optimizer.zero_grad()
            loss = torch.stack(parts).mean() + 0.01 * sum(p.square().sum() for p in model.parameters())
            trainer.backward(loss)
            optimizer.step()
            losses.append(loss.item())
        return {"losses": losses, "weights": weights(model)}

    assert_same_training(program, n)
