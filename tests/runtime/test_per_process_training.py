"""Per-process mode: Accelerate's meanings."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from accel_runtime import DistributedDataParallelKwargs

from .training import accelerated, assert_close, data, mlp, plain, weights


def train(trainer, batch_size, scheduler_steps=1, model=None):
    model = model or mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=20)
    model, optimizer, loader, scheduler = trainer.prepare(model, optimizer, DataLoader(data(16), batch_size), scheduler)
    losses, rates = [], []
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        trainer.backward(loss)
        optimizer.step()
        for _ in range(scheduler_steps):
            scheduler.step()
        rates.append(scheduler.get_last_lr()[0])
        losses.append(trainer.global_mean(loss).item())
    return {"losses": losses, "rates": rates, "weights": weights(model)}


@pytest.mark.parametrize("n", [1, 2])
def test_each_process_draws_batches_of_the_given_size_and_schedulers_tick_for_each(n):
    # batches of 4 on n processes are batches of 4n; the scheduler ticks n times per call
    expected = plain(lambda trainer: train(trainer, 4 * n, scheduler_steps=n))
    for got in accelerated(lambda trainer: train(trainer, 4), n, split_batches=False):
        assert_close({k: got[k] for k in ("losses", "rates", "weights")}, {k: expected[k] for k in ("losses", "rates", "weights")})


def test_a_scheduler_on_a_metric_ticks_once():
    def program(trainer):
        optimizer = torch.optim.SGD(mlp().parameters(), lr=1.0)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
        optimizer, scheduler = trainer.prepare(optimizer, scheduler)
        rates = []
        for _ in range(4):
            scheduler.step(1.0 + trainer.process_index)
            rates.append(optimizer.param_groups[0]["lr"])
        return {"rates": rates}

    assert all(got["rates"] == [1.0, 1.0, 0.5, 0.5] for got in accelerated(program, 2, split_batches=False))


def test_schedulers_may_be_left_alone():
    got = accelerated(lambda trainer: train(trainer, 4), 2, split_batches=False, step_scheduler_with_optimizer=False)[0]
    assert_close(got["rates"], [0.1 * (1 - 0.9 * t / 20) for t in (1, 2)])


@pytest.mark.parametrize("n", [1, 2])
def test_accumulation_in_per_process_mode(n):
    def by_hand(_):
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for at, (x, y) in enumerate(DataLoader(data(20), 4 * n)):
            (F.mse_loss(model(x), y) / 2).backward()
            if at % 2:
                optimizer.step()
                optimizer.zero_grad()
            if at == 3:
                break
        return {"weights": weights(model)}

    def program(trainer):
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(data(20), 4))
        for at, (x, y) in enumerate(loader):
            with trainer.accumulate(model):
                trainer.backward(F.mse_loss(model(x), y))
                optimizer.step()
                optimizer.zero_grad()
            if at == (3 if n == 1 else 1):
                break
        return {"weights": weights(model)}

    expected = plain(by_hand)["weights"] if n == 1 else None
    for got in accelerated(program, n, split_batches=False, gradient_accumulation_steps=2):
        if expected is not None:
            assert_close(got["weights"], expected)


def test_a_shorter_last_window_is_divided_by_the_steps_as_in_accelerate():
    def program(trainer):
        model = trainer.prepare(torch.nn.Linear(1, 1, bias=False))
        loader = trainer.prepare(DataLoader(torch.ones(3, 1), 1))
        for x in loader:
            with trainer.accumulate(model):
                model.zero_grad()
                trainer.backward(model(x).sum())
        return {"grad": model.weight.grad.item()}

    assert [accelerated(program, 1, split_batches=s, gradient_accumulation_steps=2)[0]["grad"] for s in (False, True)] == [0.5, 1.0]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_metrics_are_gathered_once_per_sample(n):
    def program(trainer):
        loader = trainer.prepare(DataLoader(data(13), 2))
        rows = [trainer.gather_for_metrics(x) for x, _ in loader]
        texts = [trainer.gather_for_metrics([str(float(v)) for v in x[:, 0]], use_gather_object=True) for x, _ in loader]
        return {"rows": torch.cat(rows), "texts": [text for batch in texts for text in batch]}

    for got in accelerated(program, n, split_batches=False):
        assert sorted(got["rows"][:, 0].tolist()) == sorted(data(13).tensors[0][:, 0].tolist())
        assert len(got["texts"]) == 13


def test_buffers_begin_each_pass_as_the_main_process_has_them():
    def program(trainer):
        model, loader = trainer.prepare(nn.BatchNorm1d(6), DataLoader(data(16), 4, shuffle=True))
        for x, _ in loader:
            model(x)
        drifted = model.running_mean.clone()
        iter(loader)
        return {"drifted": drifted, "shared": model.running_mean.clone()}

    first, second = accelerated(program, 2, split_batches=False)
    assert not torch.equal(first["drifted"], second["drifted"])
    assert torch.equal(first["drifted"], second["shared"])


@pytest.mark.parametrize("hook", ["fp16", "bf16"])
def test_compressed_gradients(hook):
    program = lambda trainer: train(trainer, 4)  # noqa: E731
    exact = accelerated(program, 2)[0]
    handlers = [DistributedDataParallelKwargs(comm_hook=hook, bucket_cap_mb=1)]
    first, second = accelerated(program, 2, kwargs_handlers=handlers)
    assert_close(first["weights"], exact["weights"], 5e-2)
    assert all(torch.equal(first["weights"][k], second["weights"][k]) for k in first["weights"])
