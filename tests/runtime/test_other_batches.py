"""Values whose share is not that of the batch in progress: joined, chosen or kept rows and losses, and two loaders at once."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from .ranks import RanksFailed
from .training import accelerated, assert_same_training, data, mlp, weights

NS = [1, 2, 3, 4]


@pytest.mark.parametrize("n", NS)
@pytest.mark.parametrize("rows", [13, 9])
def test_the_length_of_rows_joined_over_batches(rows, n):
    def program(trainer):
        found, lengths = [], []
        for x, _ in trainer.prepare(DataLoader(data(rows), 4)):
            found.append(x)
            lengths.append(trainer.global_len(torch.cat(found)))
            if trainer.global_len(x) == 4:
                lengths.append(trainer.global_len(torch.cat(found[-2:])))
        return {"lengths": [*lengths, trainer.global_len(torch.cat(found))]}

    assert_same_training(program, n)


@pytest.mark.parametrize("n", NS)
def test_the_length_of_rows_chosen_by_a_mask(n):
    def program(trainer):
        lengths = []
        for x, y in trainer.prepare(DataLoader(data(13), 4)):
            chosen = x[y[:, 0] > 0]
            lengths += [trainer.global_len(chosen), trainer.global_len(x[:, 0].tolist())]
        return {"lengths": lengths}

    assert_same_training(program, n)


def test_the_length_of_a_nested_batch_is_that_of_its_rows():
    def program(trainer):
        return {"lengths": [trainer.global_len({"x": x, "y": (y, "name")}) for x, y in trainer.prepare(DataLoader(data(9), 4))]}

    assert [got["lengths"] for got in accelerated(program, 2)] == [[4, 4, 1]] * 2


@pytest.mark.parametrize("n", [2, 3])
def test_the_length_of_several_rows_per_sample(n):
    def program(trainer):
        return {"lengths": [trainer.global_len(x.flatten()) for x, _ in trainer.prepare(DataLoader(data(9), 4))]}

    assert_same_training(program, n)


def test_the_length_of_some_rows_of_a_batch():
    def program(trainer):
        return {"lengths": [(trainer.global_len(x[:1]), trainer.global_len(x[::2]), trainer.global_len(x.T)) for x, _ in trainer.prepare(DataLoader(data(10), 5))]}

    assert [got["lengths"] for got in accelerated(program, 2)] == [[(2, 3, 12)] * 2] * 2


def test_rows_that_may_be_some_here_and_all_elsewhere_are_refused():
    def program(trainer):
        for x, _ in trainer.prepare(DataLoader(data(10), 5)):
            trainer.global_len(x[:2])

    with pytest.raises(RanksFailed, match=r"given 2 of the 3 rows .* x\[:k\].clone\(\)"):
        accelerated(program, 2)


def test_a_number_that_is_no_multiple_of_the_samples_is_refused():
    def program(trainer):
        for x, _ in trainer.prepare(DataLoader(data(8), 8)):
            trainer.global_len(len(x) + 1)

    with pytest.raises(RanksFailed, match="the number 5, and this process has 4 of the 8 samples") as failure:
        accelerated(program, 2)
    assert sorted(failure.value.errors) == [0, 1]


@pytest.mark.parametrize("n", NS)
def test_a_loss_kept_from_an_earlier_batch_counts_as_it_did_there(n):
    def program(trainer):
        model, loader, evaluation = trainer.prepare(mlp(), DataLoader(data(13), 5), DataLoader(data(7, seed=2), 3))
        kept, means = [], []
        for x, y in loader:
            loss = F.mse_loss(model(x), y)
            trainer.backward(loss)
            kept.append(loss.detach())
            means += [trainer.global_mean(value).item() for value in kept]
            for u, v in evaluation:
                F.mse_loss(model(u), v)
            means += [trainer.global_mean(value).item() for value in kept]
        return {"means": means + [trainer.global_mean(value).item() for value in kept]}

    assert_same_training(program, n)


@pytest.mark.parametrize("n", NS)
def test_a_loss_over_a_batch_fetched_once_and_kept(n):
    def program(trainer):
        model, loader, other = trainer.prepare(mlp(), DataLoader(data(12), 4), DataLoader(data(7, seed=2), 7))
        u, v = next(iter(other))
        optimizer = trainer.prepare(torch.optim.SGD(model.parameters(), lr=0.05))
        losses = []
        for x, y in loader:
            optimizer.zero_grad()
            for a, b in ((x, y), (u, v)):
                loss = F.mse_loss(model(a), b)
                trainer.backward(loss)
                losses.append(trainer.global_mean(loss).item())
            optimizer.step()
        return {"losses": losses, "weights": weights(model)}

    assert_same_training(program, n)


def fixed(loader):
    batch = next(iter(loader))
    return itertools.repeat(batch)


@pytest.mark.parametrize(
    ("repeat", "factor"),
    [(iter, None), (iter, 2), (itertools.cycle, None), (fixed, None)],
    ids=["zip", "zip, transformed", "cycle", "one batch kept"],
)
def test_one_loss_over_two_loaders_with_different_shares_is_refused_on_all_processes(repeat, factor):
    def program(trainer):
        model, first, second = trainer.prepare(mlp(), DataLoader(data(20), 4), DataLoader(data(35), 7))
        for step, ((x, y), (u, _)) in enumerate(zip(first, repeat(second), strict=False)):
            trainer.global_mean(F.mse_loss(model(x), y) + model(u * factor if factor else u).square().mean())
            assert step < 6

    with pytest.raises(RanksFailed) as failure:
        accelerated(program, 2)
    for rank in range(2):
        assert "ValueError: Batches of" in failure.value.errors[rank] and "Pass weight=" in failure.value.errors[rank]


@pytest.mark.parametrize("n", [2, 3])
def test_separate_losses_of_transformed_batches_under_zip(n):
    def program(trainer):
        model, first, second = trainer.prepare(mlp(), DataLoader(data(20), 4), DataLoader(data(35), 7))
        losses = []
        for (x, y), (u, v) in zip(first, second, strict=True):
            for a, b in ((x * 2, y), (u * 2, v)):
                loss = F.mse_loss(model(a), b)
                trainer.backward(loss)
                losses.append(trainer.global_mean(loss).item())
        return {"losses": losses}

    assert_same_training(program, n)


@pytest.mark.parametrize("n", [2, 3])
def test_a_loss_over_two_loaders_by_its_two_parts(n):
    def program(trainer):
        model, first, second = trainer.prepare(mlp(), DataLoader(data(20), 4), DataLoader(data(35), 7))
        means = []
        for (x, y), (u, _) in zip(first, second, strict=True):
            trainer.backward(F.mse_loss(model(x), y))
            trainer.backward(model(u).square().mean())
            means.append([p.grad.clone() for p in model.parameters()])
        return {"gradients": means}

    assert_same_training(program, n)


def joined(samples):
    """Each sample is a run of rows, which stand one after another."""
    return torch.cat([torch.full((int(x[0]), 2), 1.0) for x in samples]), torch.tensor([x[0] for x in samples])


@pytest.mark.parametrize("n", NS)
def test_the_length_of_rows_that_a_collate_fn_joins(n):
    def program(trainer):
        runs = torch.tensor([[1.0], [1.0], [3.0], [2.0], [4.0], [1.0], [2.0], [0.0], [1.0]])
        loader = trainer.prepare(DataLoader(TensorDataset(runs), 4, collate_fn=lambda samples: joined([x for (x,) in samples])))
        return {"lengths": [(trainer.global_len(rows), trainer.global_len(count), trainer.global_len(len(rows))) for rows, count in loader]}

    assert_same_training(program, n)
