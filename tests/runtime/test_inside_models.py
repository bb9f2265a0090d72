"""Statistics of the global batch from inside a model's methods, which have no accelerator at hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

import accel_runtime
from accel_runtime import gather_for_metrics, global_len, global_mean, global_sum
from accel_runtime.live import live_accelerator

from .ranks import run_ranks
from .training import accelerated, assert_same_training, data, mlp, weights

NS = [1, 2, 3, 4]


class Statistics(nn.Module):
    """A codebook moved by its assignments, a centre, a queue of features and a count of samples, all kept in forward."""

    def __init__(self):
        super().__init__()
        self.body = mlp(6, 4)
        self.head = nn.Linear(4, 1)
        self.register_buffer("codes", torch.linspace(-1, 1, 12).view(3, 4))
        self.register_buffer("center", torch.zeros(4))
        self.register_buffer("queue", torch.zeros(8, 4))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        features = self.body(x)
        self.note(features.detach())
        return self.head(features - self.center)

    @torch.no_grad()
    def note(self, features):
        self.center.mul_(0.9).add_(0.1 * global_mean(features.mean(0)))
        one_hot = F.one_hot(torch.cdist(features, self.codes).argmin(1), 3).float()
        counts, sums = global_sum(one_hot.sum(0)), global_sum(one_hot.T @ features)
        self.codes.lerp_(sums / counts.clamp(min=1)[:, None], 0.1)
        self.queue.copy_(torch.cat([gather_for_metrics(features), self.queue])[:8])
        self.seen += global_len(features)


def fit_with_statistics(trainer, fetch=iter, batch_size=4, rows=13):
    model, loader = trainer.prepare(Statistics(), DataLoader(data(rows), batch_size, shuffle=True))
    optimizer = trainer.prepare(torch.optim.SGD(model.parameters(), lr=0.05))
    losses = []
    for _ in range(2):
        model.train()
        for x, y in fetch(loader):
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            trainer.backward(loss)
            optimizer.step()
            losses.append(trainer.global_mean(loss).item())
        model.eval()
        with torch.no_grad():
            for x, _ in fetch(loader):
                model(x)
    return {"losses": losses, "weights": weights(model)}


def one_ahead(loader):
    iterator = iter(loader)
    held = next(iterator)
    for batch in iterator:
        yield held
        held = batch
    yield held


@pytest.mark.parametrize("n", NS)
def test_statistics_in_forward(n):
    assert_same_training(fit_with_statistics, n)


@pytest.mark.parametrize("n", [2, 3])
def test_statistics_belong_to_the_batch_of_the_call_not_to_the_one_fetched_last(n):
    assert_same_training(lambda trainer: fit_with_statistics(trainer, one_ahead), n)


@pytest.mark.parametrize("n", [2, 3])
def test_statistics_over_batches_kept_in_a_list(n):
    assert_same_training(lambda trainer: fit_with_statistics(trainer, list), n)


@pytest.mark.parametrize("n", [2, 4])
def test_a_data_set_smaller_than_the_number_of_processes(n):
    assert_same_training(lambda trainer: fit_with_statistics(trainer, rows=1), n)


@pytest.mark.parametrize("n", [2, 3])
def test_a_method_of_the_model_called_under_zip(n):
    class Scorer(Statistics):
        def score(self, x):
            self.note(self.body(x).detach())

    def program(trainer):
        model, first, second = trainer.prepare(Scorer(), DataLoader(data(13), 4), DataLoader(data(11, seed=2), 3))
        with torch.no_grad():
            for (x, _), (u, _) in zip(first, second, strict=False):
                model.score(x)
                model.score(u)
        return {"weights": weights(model)}

    assert_same_training(program, n)


def test_without_an_accelerator_everything_is_as_it_was():
    x = torch.ones(3, 2, requires_grad=True)
    assert live_accelerator() is None
    assert global_mean(x) is x and global_sum(x) is x and gather_for_metrics(x) is x
    assert (global_len(x), global_len([1, 2]), global_len(5)) == (3, 2, 5)


def test_the_main_process_alone_may_ask_for_the_length_of_a_batch():
    def program(trainer):
        lengths = []
        for x, _ in trainer.prepare(DataLoader(data(9), 4)):
            if trainer.is_main_process:
                lengths.append({global_len(x), global_len(len(x)), global_len(x.view(-1, 2, 3)), global_len(x[:, 2:])})
        return {"lengths": lengths}

    assert accelerated(program, 2)[0]["lengths"] == [{4}, {4}, {1}]


def test_the_main_process_alone_may_ask_for_the_length_of_a_list_in_the_batch():
    def program(trainer):
        texts = [{"text": f"sample {i}", "label": i} for i in range(9)]
        loader = trainer.prepare(DataLoader(texts, 4))
        return {"lengths": [global_len(batch["text"]) for batch in loader if trainer.is_main_process]}

    assert accelerated(program, 2)[0]["lengths"] == [4, 4, 1]


def test_per_process_mode():
    def body():
        accelerator = accel_runtime.Accelerator()
        x = torch.full((accelerator.process_index + 1, 1), float(accelerator.process_index))
        return global_mean(x.mean()).item(), global_sum(x.sum()).item(), global_len(x)

    assert run_ranks(body, 2) == [(0.5, 2.0, 3)] * 2
