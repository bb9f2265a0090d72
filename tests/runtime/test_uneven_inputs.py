"""Processes with unequal numbers of batches train on together."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, IterableDataset

from accel_runtime import DataLoaderConfiguration

from .training import accelerated, data, mlp, plain, weights

UNEVEN = DataLoaderConfiguration(even_batches=False)


def fit(trainer, rows=14, joined=True):
    model, loader = trainer.prepare(mlp(), DataLoader(data(rows), 4))
    optimizer = trainer.prepare(torch.optim.AdamW(model.parameters(), lr=0.1))
    steps = 0
    with trainer.join_uneven_inputs([model]):
        for x, y in loader:
            optimizer.zero_grad()
            trainer.backward(F.mse_loss(model(x), y))
            optimizer.step()
            steps += 1
    moments = [state["exp_avg"].clone() for state in optimizer.state_dict()["state"].values()]
    return {"steps": steps, "weights": weights(model), "moments": moments}


def test_all_end_with_what_the_one_with_the_most_batches_has():
    """14 rows in batches of 4 on 3 processes: 2, 1 and 1 batches."""
    results = accelerated(fit, 3, split_batches=False, dataloader_config=UNEVEN)
    assert [result["steps"] for result in results] == [2, 1, 1]
    for other in results[1:]:
        for one, two in zip(results[0]["moments"], other["moments"], strict=True):
            assert torch.equal(one, two)
        assert all(torch.equal(results[0]["weights"][key], value) for key, value in other["weights"].items())


def test_means_count_all_processes():
    """The last batch, which one process of two has, counts half."""

    def expected(trainer):
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x, y = data(12).tensors
        for rows in (range(0, 8), range(8, 12)):
            optimizer.zero_grad()
            (F.mse_loss(model(x[rows]), y[rows]) * len(rows) / 8).backward()
            optimizer.step()
        return weights(model)

    def program(trainer):
        model, loader = trainer.prepare(mlp(), DataLoader(data(12), 4))
        optimizer = trainer.prepare(torch.optim.SGD(model.parameters(), lr=0.1))
        with trainer.join_uneven_inputs([model]):
            for x, y in loader:
                optimizer.zero_grad()
                F.mse_loss(model(x), y).backward()
                optimizer.step()
        return weights(model)

    wanted = plain(expected)
    for got in accelerated(program, 2, split_batches=False, dataloader_config=UNEVEN):
        for key, value in got.items():
            if key != "streams":
                assert torch.allclose(value, wanted[key], atol=1e-6)


def test_exact_mode_needs_no_joining():
    steps = [result["steps"] for result in accelerated(fit, 2)]
    assert steps == [4, 4]


class Numbers(IterableDataset):
    def __iter__(self):
        return iter(torch.arange(6.0))


def test_even_batches_is_another_inside_and_streams_are_warned_of():
    def program(trainer):
        model = trainer.prepare(mlp())
        loader = trainer.prepare(DataLoader(data(5), 1))
        with trainer.join_uneven_inputs([model], even_batches=False):
            inside = loader.batch_sampler.even_batches
        stream = trainer.prepare(DataLoader(Numbers()))
        with (
            pytest.warns(UserWarning, match="only supported for map-style"),
            trainer.join_uneven_inputs([model], False),
        ):
            pass
        return {"values": (inside, loader.batch_sampler.even_batches, stream is None)}

    assert all(got["values"] == (False, True, False) for got in accelerated(program, 2, split_batches=False))


def test_where_weights_are_sharded_it_says_so():
    from accel_runtime import FullyShardedDataParallelPlugin

    def program(trainer):
        model = trainer.prepare(mlp())
        with (
            pytest.warns(UserWarning, match="only supported for multi-GPU and multi-CPU"),
            trainer.join_uneven_inputs([model]),
        ):
            pass
        return {}

    accelerated(program, 2, split_batches=False, fsdp_plugin=FullyShardedDataParallelPlugin())
