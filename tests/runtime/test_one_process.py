"""On one process the runtime is plain PyTorch: the same bits, the same objects, next to no calls."""

from __future__ import annotations

import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from .training import accelerated, assert_same_training, data, mlp, weights


def test_dropout_shuffling_and_augmentation_are_identical():
    def program(trainer):
        model = nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.3), nn.BatchNorm1d(16), nn.Linear(16, 1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 9)
        model, optimizer, loader, scheduler = trainer.prepare(
            model, optimizer, DataLoader(data(22), 4, shuffle=True, num_workers=1, timeout=30), scheduler
        )
        losses = []
        for _ in range(2):
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.mse_loss(model(x + trainer.draw(torch.randn_like, x)), y)
                trainer.backward(loss)
                trainer.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                losses.append(trainer.global_mean(loss).item())
        return {"losses": losses, "weights": weights(model)}

    assert_same_training(program, 1)
    assert_same_training(program, 1, split_batches=False)


def test_prepared_objects_are_the_originals_untouched():
    def program(trainer):
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.ConstantLR(torch.optim.SGD(model.parameters(), lr=0.1))
        prepared = trainer.prepare(model, optimizer, scheduler, "text", 3)
        assert prepared[0] is model and prepared[1] is optimizer and prepared[2] is scheduler and prepared[3:] == ("text", 3)
        assert "step" not in vars(optimizer) and "forward" not in vars(model)
        assert trainer.prepare(model) is model and trainer.unwrap_model(model) is model
        return {}

    accelerated(program, 1)


def test_a_step_makes_few_python_calls():
    def program(trainer):
        model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x, y = torch.randn(400, 16), torch.randint(0, 2, (400,))
        loader = DataLoader(torch.utils.data.TensorDataset(x, y), 8)
        model, optimizer, loader = trainer.prepare(model, optimizer, loader)
        criterion = nn.CrossEntropyLoss()
        iterator = iter(loader)

        def step():
            x, y = next(iterator)
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            trainer.backward(loss)
            optimizer.step()

        for _ in range(5):
            step()
        return {"calls": calls_of(step, 20)}

    got = accelerated(program, 1)[0]["calls"]
    assert got <= 230


def calls_of(function, times: int) -> float:
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        for _ in range(times):
            function()
    finally:
        sys.setprofile(None)
    return count / times - 1
