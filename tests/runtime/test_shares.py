"""The share belongs to the batch that produced the loss, not to the one fetched last."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader

from accel_runtime.batches import Share, cut

from .ranks import RanksFailed
from .training import accelerated, assert_same_training, data, mlp, weights

NS = [1, 2, 3, 4]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("total", [0, 1, 2, 3, 4, 7, 8, 100])
def test_a_cut_is_contiguous_complete_and_balanced(total, size):
    parts = [cut(total, size, rank) for rank in range(size)]
    assert [i for start, stop in parts for i in range(start, stop)] == list(range(total))
    lengths = [stop - start for start, stop in parts]
    assert max(lengths) - min(lengths) <= 1 and lengths == sorted(lengths, reverse=True)


def test_scales_average_to_one():
    for total in range(1, 20):
        assert sum(Share.of(total, 4, rank).scale for rank in range(4)) == pytest.approx(4)


def setup(trainer, *loaders):
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    return trainer.prepare(model, optimizer, *loaders)


def train_on(trainer, model, optimizer, x, y, losses):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    trainer.backward(loss)
    optimizer.step()
    losses.append(trainer.global_mean(loss).item())


def one_ahead(loader):
    iterator = iter(loader)
    held = next(iterator)
    for batch in iterator:
        yield held
        held = batch
    yield held


@pytest.mark.parametrize("n", NS)
@pytest.mark.parametrize("change", [lambda x: x, lambda x: x * 2], ids=["as it comes", "transformed"])
def test_a_prefetching_loader(change, n):
    def program(trainer):
        model, optimizer, loader = setup(trainer, DataLoader(data(13), 4, shuffle=True))
        losses = []
        for _ in range(2):
            for x, y in one_ahead(loader):
                train_on(trainer, model, optimizer, change(x), y, losses)
        return {"losses": losses, "weights": weights(model)}

    assert_same_training(program, n)


@pytest.mark.parametrize("n", NS)
def test_batches_kept_in_a_list(n):
    def program(trainer):
        model, optimizer, loader = setup(trainer, DataLoader(data(13), 4, shuffle=True))
        losses = []
        batches = list(loader)
        for x, y in batches[::-1] + batches:
            train_on(trainer, model, optimizer, x, y, losses)
        return {"losses": losses, "weights": weights(model)}

    assert_same_training(program, n)


@pytest.mark.parametrize("n", NS)
def test_two_loaders_under_zip_with_uneven_ends(n):
    def program(trainer):
        model, optimizer, first, second = setup(trainer, DataLoader(data(13), 4, shuffle=True), DataLoader(data(11, seed=2), 3))
        losses = []
        for (x, y), (u, v) in zip(first, second, strict=False):
            train_on(trainer, model, optimizer, x, y, losses)
            train_on(trainer, model, optimizer, u, v, losses)
        return {"losses": losses, "weights": weights(model)}

    assert_same_training(program, n)


def test_one_loss_over_two_different_batches_asks_for_the_weight():
    def program(trainer):
        model, _, first, second = setup(trainer, DataLoader(data(12), 4), DataLoader(data(9), 3))
        for (x, y), (u, v) in zip(first, second, strict=True):
            trainer.backward(F.mse_loss(model(x), y) + F.mse_loss(model(u), v))
        return {}

    with pytest.raises(RanksFailed) as failure:
        accelerated(program, 2)
    assert all("weight=" in failure.value.errors[rank] and "ValueError" in failure.value.errors[rank] for rank in range(2))


@pytest.mark.parametrize("n", [1, 2, 4])
def test_one_loss_over_two_batches_of_equal_shares(n):
    def program(trainer):
        model, optimizer, first, second = setup(trainer, DataLoader(data(12), 4), DataLoader(data(24), 8))
        losses = []
        for (x, y), (u, v) in zip(first, second, strict=True):
            loss = F.mse_loss(model(x), y) + F.mse_loss(model(u), v)
            optimizer.zero_grad()
            trainer.backward(loss)
            optimizer.step()
            losses.append(trainer.global_mean(loss).item())
        return {"losses": losses, "weights": weights(model)}

    assert_same_training(program, n)


@pytest.mark.parametrize("n", NS)
def test_evaluation_inside_training_and_between_forward_and_backward(n):
    def program(trainer):
        model, optimizer, loader, evaluation = setup(trainer, DataLoader(data(13), 4, shuffle=True), DataLoader(data(7, seed=2), 3))
        losses = []

        def evaluate(stop):
            with torch.no_grad():
                for step, (u, v) in enumerate(evaluation):
                    losses.append(trainer.global_mean(F.mse_loss(model(u), v)).item())
                    losses.append(len(trainer.gather_for_metrics(v)))
                    if step == stop:
                        break

        for x, y in loader:
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            evaluate(1)
            trainer.backward(loss)
            evaluate(5)
            losses.append(trainer.global_mean(loss).item())
            optimizer.step()
            losses.append(trainer.global_len(x))
        return {"losses": losses, "weights": weights(model)}

    assert_same_training(program, n)


@pytest.mark.parametrize("n", NS)
def test_an_endless_second_loader(n):
    def program(trainer):
        model, optimizer, loader, other = setup(trainer, DataLoader(data(13), 4), DataLoader(data(7, seed=2), 3))
        losses, second = [], iter(other)
        for x, y in loader:
            try:
                u, v = next(second)
            except StopIteration:
                second = iter(other)
                u, v = next(second)
            train_on(trainer, model, optimizer, x, y, losses)
            train_on(trainer, model, optimizer, u, v, losses)
        return {"losses": losses, "weights": weights(model)}

    assert_same_training(program, n)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_lengths(n):
    def program(trainer):
        loader = trainer.prepare(DataLoader(data(9), 4))
        return {"lengths": [(trainer.global_len(x), trainer.global_len(len(x)), trainer.global_len(torch.cat([x, x]))) for x, _ in loader]}

    for got in accelerated(program, n):
        assert got["lengths"] == [(4, 4, 8), (4, 4, 8), (1, 1, 2)]


@pytest.mark.parametrize("n", [1, 2])
def test_values_outside_any_loader_count_alike(n):
    def program(trainer):
        rank = getattr(trainer, "process_index", 0)
        return {"mean": trainer.global_mean(torch.tensor(float(rank))).item(), "sum": trainer.global_sum(torch.tensor(rank)).item()}

    for got in accelerated(program, n):
        assert (got["mean"], got["sum"]) == ((n - 1) / 2, n * (n - 1) // 2)


@pytest.mark.parametrize("n", NS)
def test_results_gathered_after_the_loop_stand_in_the_original_order(n):
    def program(trainer):
        loader = trainer.prepare(DataLoader(data(13), 4))
        rows, names = [], []
        for x, _ in loader:
            rows.append(x)
            names += [f"{value:.4f}" for value in x[:, 0].tolist()]
        return {"rows": trainer.gather_for_metrics(torch.cat(rows)), "names": trainer.gather_for_metrics(names)}

    assert_same_training(program, n)


@pytest.mark.parametrize("n", NS)
def test_several_rows_per_sample(n):
    def program(trainer):
        loader = trainer.prepare(DataLoader(data(9), 4))
        return {"tokens": [trainer.gather_for_metrics(x.flatten()) for x, _ in loader]}

    assert_same_training(program, n)


def test_a_running_value_after_the_loop_counts_alike_on_all_processes():
    def program(trainer):
        loader = trainer.prepare(DataLoader(data(9), 4))
        for _ in loader:
            pass
        return {"mean": trainer.global_mean(torch.tensor(float(trainer.process_index)))}

    assert all(got["mean"] == 0.5 for got in accelerated(program, 2))


@pytest.mark.parametrize("n", NS)
def test_one_batch_taken_out_of_a_loader(n):
    def program(trainer):
        model, loader = trainer.prepare(mlp(), DataLoader(data(3), 5))
        x, y = next(iter(loader))
        with torch.no_grad():
            return {"loss": trainer.global_mean(F.mse_loss(model(x), y)).item(), "x": trainer.gather_for_metrics(x)}

    assert_same_training(program, n)


def test_a_loss_of_several_elements_is_refused_as_by_torch():
    def program(trainer):
        model, loader = trainer.prepare(mlp(), DataLoader(data(9), 5))
        for x, y in loader:
            trainer.backward((model(x) - y).square())
        return {}

    with pytest.raises(RanksFailed, match="scalar outputs"):
        accelerated(program, 2)
