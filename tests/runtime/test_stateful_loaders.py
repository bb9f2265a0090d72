"""Loaders with torchdata's `state_dict` and `load_state_dict`."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from accel_runtime import DataLoaderConfiguration
from accel_runtime.data_loader import DataLoaderDispatcher, DataLoaderShard, SkipDataLoader
from accel_runtime.state import AcceleratorState

from .training import accelerated

stateful_dataloader = pytest.importorskip("torchdata.stateful_dataloader")


@pytest.fixture(autouse=True)
def forgotten():
    yield
    AcceleratorState._reset_state(True)


class Numbers(IterableDataset):
    def __iter__(self):
        return iter(torch.arange(30.0))


def interrupted(trainer, dataset):
    """Two batches, the state, and the rest: once going on, once from the state, in a loader made anew."""

    def prepared():
        shuffle = not isinstance(dataset, IterableDataset)
        return trainer.prepare(DataLoader(dataset, 3, shuffle=shuffle))

    loader = prepared()
    assert isinstance(loader, stateful_dataloader.StatefulDataLoader) and loader.use_stateful_dataloader
    batches = iter(loader)
    next(batches), next(batches)
    state = loader.state_dict()
    torch.rand(3)
    rest = list(batches)
    later = prepared()
    later.load_state_dict(state)
    ends = []
    for batch in later:
        ends.append((batch, later.end_of_dataloader))
    assert [end for _, end in ends] == [*[False] * (len(ends) - 1), True] or isinstance(dataset, IterableDataset)
    return {"rest": rest, "again": [batch for batch, _ in ends], "whole": len(list(later))}


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("exact", [True, False], ids=["exact", "per process"])
@pytest.mark.parametrize("kind", ["map", "stream"])
def test_the_rest_of_a_pass(n, exact, kind):
    dataset = TensorDataset(torch.arange(30.0)) if kind == "map" else Numbers()
    config = DataLoaderConfiguration(use_stateful_dataloader=True)
    for got in accelerated(
        lambda trainer: interrupted(trainer, dataset), n, split_batches=exact, dataloader_config=config
    ):
        assert len(got["rest"]) == len(got["again"]) > 0 and got["whole"] == len(got["rest"]) + 2
        for one, two in zip(got["rest"], got["again"], strict=True):
            assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("kind", [SkipDataLoader, DataLoaderShard, DataLoaderDispatcher])
def test_accelerates_classes(kind):
    plain = stateful_dataloader.StatefulDataLoader(range(12), 3)
    loader = kind(range(12), batch_size=3, use_stateful_dataloader=True)
    assert isinstance(loader, (kind, stateful_dataloader.StatefulDataLoader))
    for one, two in zip(iter(plain), iter(loader), strict=True):
        assert one.tolist() == two.tolist()
        assert plain.state_dict() == loader.state_dict()


def test_a_state_of_another_number_of_processes_is_refused():
    loader = DataLoaderShard(range(12), batch_size=3, use_stateful_dataloader=True)
    with pytest.raises(ValueError, match="another number of processes"):
        loader.load_state_dict({"position": None})
