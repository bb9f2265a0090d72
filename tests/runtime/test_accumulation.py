"""Accumulation windows: any order of `zero_grad`, the true length of the last window, what waits for its end."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, IterableDataset

from accel_runtime import GradientAccumulationPlugin
from accel_runtime.accumulation import _last_factor

from .training import Plain, accelerated, assert_close, assert_identical, data, mlp, plain, weights

NS = [1, 2, 3]


class Stream(IterableDataset):
    def __iter__(self):
        return iter(list(data(19)))


LOADERS: dict[str, Any] = {
    "leftover window": lambda: DataLoader(data(19), 4, shuffle=True),  # 5 batches, windows of 2, 2, 1
    "unknown length": lambda: DataLoader(Stream(), 4),
}


def by_hand(loader: Any, steps: int, epochs: int = 2, carry_over: bool = False) -> dict[str, Any]:
    """Windows of `steps` micro-batches; the last one of an epoch is shorter, or goes on into the next epoch."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    losses, position = [], 0
    for _ in range(epochs):
        batches = list(loader)
        position = position if carry_over else 0
        for at, (x, y) in enumerate(batches):
            window = steps if carry_over else min(steps, len(batches) - at // steps * steps)
            loss = F.mse_loss(model(x), y)
            (loss / window).backward()
            losses.append(loss.item())
            position += 1
            if position % steps == 0 or (at + 1 == len(batches) and not carry_over):
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
    return {"losses": losses, "weights": weights(model), "rate": scheduler.get_last_lr()[0]}


def accumulated(trainer: Any, loader: Any, zero: str) -> dict[str, Any]:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    model, optimizer, loader, scheduler = trainer.prepare(model, optimizer, loader, scheduler)
    losses = []
    for _ in range(2):
        for x, y in loader:
            if zero == "before":
                optimizer.zero_grad()
            with trainer.accumulate(model):
                if zero == "first":
                    optimizer.zero_grad()
                loss = F.mse_loss(model(x), y)
                trainer.backward(loss)
                optimizer.step()
                scheduler.step()
                if zero == "last":
                    optimizer.zero_grad()
            losses.append(trainer.global_mean(loss).item())
    return {"losses": losses, "weights": weights(model), "rate": scheduler.get_last_lr()[0]}


def check(program, reference, n, **settings):
    expected = plain(lambda _: reference())
    for got in accelerated(program, n, **settings):
        got.pop("streams")
        wanted = {k: v for k, v in expected.items() if k != "streams"}
        assert_identical(got, wanted) if n == 1 else assert_close(got, wanted)


@pytest.mark.parametrize("n", NS)
@pytest.mark.parametrize("zero", ["first", "last", "before"])
@pytest.mark.parametrize("steps", [2, 3, 4])
def test_windows(steps, zero, n):
    make = LOADERS["leftover window"]
    check(lambda trainer: accumulated(trainer, make(), zero), lambda: by_hand(make(), steps), n, gradient_accumulation_steps=steps)


@pytest.mark.parametrize("n", NS)
@pytest.mark.parametrize("zero", ["first", "last"])
def test_a_loader_of_unknown_length(zero, n):
    make = LOADERS["unknown length"]
    expected = plain(lambda _: by_hand(make(), 2))
    for got in accelerated(lambda trainer: accumulated(trainer, make(), zero), n, gradient_accumulation_steps=2):
        assert_close(got["losses"], expected["losses"])
        assert_close(got["weights"], expected["weights"])


@pytest.mark.parametrize("n", NS)
def test_windows_that_go_on_into_the_next_epoch(n):
    make = LOADERS["leftover window"]
    plugin = GradientAccumulationPlugin(num_steps=2, sync_with_dataloader=False)
    check(
        lambda trainer: accumulated(trainer, make(), "last"), lambda: by_hand(make(), 2, carry_over=True), n, gradient_accumulation_plugin=plugin
    )


@pytest.mark.parametrize("n", NS)
def test_evaluation_inside_a_window_changes_nothing(n):
    make = LOADERS["leftover window"]

    def program(trainer):
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        model, optimizer, loader, evaluation = trainer.prepare(model, optimizer, make(), DataLoader(data(5), 2))
        losses, flags = [], []
        for _ in range(2):
            for x, y in loader:
                with trainer.accumulate(model):
                    loss = F.mse_loss(model(x), y)
                    for _ in evaluation:
                        pass
                    trainer.backward(loss)
                    optimizer.step()
                    optimizer.zero_grad()
                flags.append(trainer.sync_gradients)
                losses.append(trainer.global_mean(loss).item())
        return {"losses": losses, "weights": weights(model), "flags": flags}

    def reference():
        result = by_hand_without_scheduler(make())
        return {**result, "flags": [False, True, False, True, True] * 2}

    # the evaluation loader draws a seed per pass, so the shuffles of later epochs differ: one reference with the same draws
    def by_hand_without_scheduler(loader):
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        losses = []
        for _ in range(2):
            for at, (x, y) in enumerate(loader):
                loss = F.mse_loss(model(x), y)
                for _ in DataLoader(data(5), 2):
                    pass
                (loss / (1 if at == 4 else 2)).backward()
                losses.append(loss.item())
                if at % 2 or at == 4:
                    optimizer.step()
                    optimizer.zero_grad()
        return {"losses": losses, "weights": weights(model)}

    check(program, reference, n, gradient_accumulation_steps=2)


@pytest.mark.parametrize("n", NS)
def test_clipping_waits_for_the_windows_end(n):
    make = LOADERS["leftover window"]

    def program(trainer, manual):
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        model, optimizer, loader = trainer.prepare(model, optimizer, make())
        for at, (x, y) in enumerate(loader):
            if manual:
                (F.mse_loss(model(x), y) / (1 if at == 4 else 2)).backward()
                if at % 2 or at == 4:
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
                    optimizer.step()
                    optimizer.zero_grad()
            else:
                with trainer.accumulate(model):
                    trainer.backward(F.mse_loss(model(x), y))
                    trainer.clip_grad_norm_(model.parameters(), 0.1)
                    optimizer.step()
                    optimizer.zero_grad()
        return {"weights": weights(model)}

    check(lambda trainer: program(trainer, False), lambda: program(Plain(), True), n, gradient_accumulation_steps=2)


@pytest.mark.parametrize("n", [1, 2])
def test_a_scheduler_per_epoch_ticks_after_an_open_window(n):
    plugin = GradientAccumulationPlugin(num_steps=3, sync_with_dataloader=False)

    def program(trainer):
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        model, optimizer, loader, scheduler = trainer.prepare(model, optimizer, DataLoader(data(20), 4), scheduler)
        for _ in range(2):
            for x, y in loader:
                with trainer.accumulate(model):
                    trainer.backward(F.mse_loss(model(x), y))
                    optimizer.step()
                    optimizer.zero_grad()
            scheduler.step()
        return {"rate": scheduler.get_last_lr()}

    assert all(got["rate"] == [0.25] for got in accelerated(program, n, gradient_accumulation_plugin=plugin))


def test_the_number_of_steps_can_change():
    def program(trainer):
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(data(16), 4))
        flags = []
        for steps in (1, 4):
            trainer.gradient_accumulation_steps = steps
            for x, y in loader:
                with trainer.accumulate(model):
                    before = weights(model)["0.weight"]
                    trainer.backward(F.mse_loss(model(x), y))
                    optimizer.step()
                    flags.append(not torch.equal(before, weights(model)["0.weight"]))
                    optimizer.zero_grad()
        return {"flags": flags}

    assert accelerated(program, 1)[0]["flags"] == [True] * 4 + [False] * 3 + [True]


@pytest.mark.parametrize("n", [1, 2])
def test_no_sync_leaves_gradients_local_until_a_backward_outside(n):
    def program(trainer):
        model = trainer.prepare(torch.nn.Linear(1, 1, bias=False))
        rank, seen = getattr(trainer, "process_index", 0), []
        with trainer.no_sync(model):
            model(torch.tensor([[1.0 + rank]])).sum().backward()
            seen.append(model.weight.grad.item())
            with trainer.trigger_sync_in_backward(model):
                model(torch.tensor([[1.0 + rank]])).sum().backward()
        seen.append(model.weight.grad.item())
        return {"seen": seen}

    mean = (1 + n) / 2
    for rank, got in enumerate(accelerated(program, n)):
        assert got["seen"] == [1.0 + rank, 2 * mean]


def test_the_number_that_a_loss_was_divided_by():
    loss = F.mse_loss(torch.ones(2, requires_grad=True), torch.zeros(2))
    four, weight = torch.tensor(4.0), torch.tensor(4.0, requires_grad=True)
    assert list(map(_last_factor, (loss / 4, loss * 0.25, loss / four))) == [4.0, 0.25, 4.0]
    assert list(map(_last_factor, (loss, loss * loss, loss / weight, loss + 4, four))) == [None] * 5


@pytest.mark.parametrize("by", [4, 3])
def test_a_loss_that_is_divided_twice_is_told_of_once(by):
    def program(trainer):
        model, loader = trainer.prepare(mlp(), DataLoader(data(16), 2))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for x, y in loader:
                with trainer.accumulate(model):
                    trainer.backward(F.mse_loss(model(x), y) / by)
        return {"said": [str(w.message) for w in caught]}

    (got,) = accelerated(program, 1, gradient_accumulation_steps=4)
    assert len(got["said"]) == (by == 4) and all("divided by 4 before backward()" in text for text in got["said"])
