"""Skipping batches of plain loaders: as if they had been read, without reading them."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset

from accel_runtime.data.skip import skip_first_batches


class Counted(torch.utils.data.Dataset):
    def __init__(self):
        self.read = []

    def __len__(self):
        return 11

    def __getitem__(self, index):
        self.read.append(index)
        return index


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(11))


class Reversed(BatchSampler):
    def __iter__(self):
        return iter([list(reversed(batch)) for batch in super().__iter__()])


@pytest.mark.parametrize(
    "make",
    [
        lambda data: DataLoader(data, batch_size=2),
        lambda data: DataLoader(data, batch_size=2, drop_last=True),
        lambda data: DataLoader(data, batch_size=2, shuffle=True),
        lambda data: DataLoader(data, batch_sampler=Reversed(range(11), 3, False)),
        lambda data: DataLoader(data, batch_size=None),
        lambda data: DataLoader(Stream(), batch_size=2),
        lambda data: [1, 2, 3, 4],
    ],
    ids=["plain", "drop_last", "shuffle", "batch_sampler", "single", "stream", "list"],
)
def test_the_rest_is_what_it_would_have_been(make):
    def order(loader):
        torch.manual_seed(0)
        batches = [torch.as_tensor(batch).tolist() for batch in loader]
        return batches, torch.rand(1).item()

    whole, stream = order(make(Counted()))
    later = skip_first_batches(make(Counted()), 2)
    assert order(later) == (whole[2:], stream) == order(later)
    if not isinstance(getattr(later, "dataset", None), Stream):
        assert len(later) == len(whole) - 2
    assert order(skip_first_batches(make(Counted()), 99))[0] == []


def test_skipped_samples_are_not_read():
    data = Counted()
    list(skip_first_batches(DataLoader(data, batch_size=2), 4))
    assert data.read == [8, 9, 10]


def test_a_sampler_of_batches():
    loader = DataLoader(torch.arange(6), sampler=BatchSampler(range(6), 2, False), batch_size=None)
    assert [batch.tolist() for batch in skip_first_batches(loader, 1)] == [[2, 3], [4, 5]]


def test_skipping_nothing_is_the_loader_itself():
    loader = DataLoader(range(3))
    assert skip_first_batches(loader) is loader
