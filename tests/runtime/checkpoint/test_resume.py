"""A resumed training is the one that was interrupted: bit by bit on as many processes, sample by sample on another number."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, WeightedRandomSampler

from accel_runtime import DataLoaderConfiguration

from ..training import data
from .resuming import Training, assert_exact, assert_same_samples


class PythonShuffle:
    """A sampler which shuffles by Python's stream when its pass begins."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        order = list(range(self.count))
        random.shuffle(order)
        return iter(order)


class AnySample(PythonShuffle):
    """A sampler which draws each index when it is asked for it."""

    def __iter__(self) -> Iterator[int]:
        for _ in range(self.count):
            yield random.randrange(self.count)


class OwnGenerator(PythonShuffle):
    """A sampler with a generator of its own, which goes on over the epochs."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.rng = numpy.random.default_rng(5)

    def __iter__(self) -> Iterator[int]:
        yield from self.rng.permutation(self.count).tolist()


class Stream(IterableDataset[Any]):
    """A stream that shuffles at its beginning."""

    def __init__(self, count: int) -> None:
        self.samples = list(data(count))

    def __iter__(self) -> Iterator[Any]:
        order = list(range(len(self.samples)))
        random.shuffle(order)
        return (self.samples[i] for i in order)


class Noisy(Dataset[Any]):
    """Samples with noise drawn as they are read."""

    def __init__(self, count: int) -> None:
        self.samples = data(count)

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        x, y = self.samples[index]
        return x + 0.1 * torch.randn(x.shape), y


LOADERS: dict[str, Any] = {
    "shuffled": lambda: DataLoader(data(37), batch_size=5, shuffle=True),
    "with workers": lambda: DataLoader(data(37), batch_size=5, shuffle=True, num_workers=2),
    "with persistent workers": lambda: DataLoader(
        data(37), batch_size=5, shuffle=True, num_workers=1, persistent_workers=True
    ),
    "with its own generator": lambda: DataLoader(
        data(37), batch_size=5, shuffle=True, generator=torch.Generator().manual_seed(3)
    ),
    "with replacement": lambda: DataLoader(data(37), batch_size=5, sampler=RandomSampler(range(37), replacement=True)),
    "weighted": lambda: DataLoader(data(37), batch_size=5, sampler=WeightedRandomSampler([1.0] * 37, 37)),
    "shuffled by Python": lambda: DataLoader(data(37), batch_size=5, sampler=PythonShuffle(37)),
    "drawn one by one": lambda: DataLoader(data(37), batch_size=5, sampler=AnySample(37)),
    "drawn by NumPy": lambda: DataLoader(data(37), batch_size=5, sampler=OwnGenerator(37)),
    "a stream": lambda: DataLoader(Stream(37), batch_size=5),
    "a stream with a worker": lambda: DataLoader(Stream(37), batch_size=5, num_workers=1),
    "noisy samples from workers": lambda: DataLoader(Noisy(37), batch_size=5, shuffle=True, num_workers=2),
    "noisy samples": lambda: DataLoader(Noisy(37), batch_size=5, shuffle=True),
}


@pytest.mark.parametrize(("name", "n"), [*((name, 2) for name in LOADERS), *((name, 1) for name in list(LOADERS)[::3])])
def test_bit_by_bit(name: str, n: int) -> None:
    assert_exact(Training(LOADERS[name]), n, [3, 8, 13])


def test_last_batch_smaller_than_the_number_of_processes() -> None:
    assert_exact(Training(), 3, [7, 8])


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("workers", [0, 2])
def test_in_the_middle_of_an_accumulation_window(n: int, workers: int) -> None:
    training = Training(
        lambda: DataLoader(data(37), batch_size=5, shuffle=True, num_workers=workers),
        {"gradient_accumulation_steps": 3},
        accumulate=True,
    )
    assert_exact(training, n, [2, 4, 8])


@pytest.mark.parametrize("n", [1, 2])
def test_seedable_sampler(n: int) -> None:
    assert_exact(
        Training(settings={"dataloader_config": DataLoaderConfiguration(use_seedable_sampler=True)}), n, [3, 11]
    )


@pytest.mark.parametrize("loader", ["shuffled", "with workers", "shuffled by Python", "a stream"])
def test_per_process_mode(loader: str) -> None:
    assert_exact(Training(LOADERS[loader], {"split_batches": False}, epochs=4), 2, [2, 5, 9])


def test_dispatched() -> None:
    assert_exact(Training(settings={"dataloader_config": DataLoaderConfiguration(dispatch_batches=True)}), 2, [3, 9])


@pytest.mark.parametrize(("n", "m"), [(2, 1), (1, 2), (3, 2), (2, 4)])
@pytest.mark.parametrize("loader", ["shuffled", "a stream"])
def test_on_another_number_of_processes(n: int, m: int, loader: str) -> None:
    assert_same_samples(Training(LOADERS[loader], dropout=0.0), n, m, 11)


def test_in_the_middle_of_a_window_on_another_number() -> None:
    training = Training(settings={"gradient_accumulation_steps": 3}, dropout=0.0, accumulate=True)
    assert_same_samples(training, 2, 3, 5)
