"""Every kind of loader: N processes train on the original's batches, to the last uneven one."""

from __future__ import annotations

import random
from collections import UserDict, namedtuple
from dataclasses import dataclass
from typing import Any

import numpy
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    WeightedRandomSampler,
    default_collate,
)
from torch.utils.data.distributed import DistributedSampler

from .ranks import RanksFailed
from .training import accelerated, assert_identical, assert_same_training, data, fit, plain

NS = [1, 2, 3, 4]
Pair = namedtuple("Pair", "x y")


class EveryThird(Sampler):
    def __iter__(self):
        yield from (3 * i % 23 for i in range(23))

    def __len__(self):
        return 23


class LazilyShuffled(Sampler):
    """Draws while it is being read."""

    def __iter__(self):
        for _ in range(23):
            yield random.randrange(23)

    def __len__(self):
        return 23


class Growing:
    """A batch sampler with batches of 1, 2, 3, ... samples."""

    def __iter__(self):
        at = 0
        for size in range(1, 7):
            yield list(range(at, at + size))
            at += size

    def __len__(self):
        return 6


class Stream(IterableDataset):
    def __init__(self, n: int):
        self.samples = list(data(n))

    def __iter__(self):
        return iter(self.samples)


class SizedStream(Stream):
    def __len__(self):
        return len(self.samples)


class NoisyStream(Stream):
    def __iter__(self):
        for x, y in self.samples:
            yield x + 0.1 * torch.randn_like(x), y + random.random()


class Batched(Dataset):
    """Yields whole batches: for batch_size=None."""

    def __len__(self):
        return 5

    def __getitem__(self, i):
        return data(5 + i, seed=i).tensors


class OwnLoader(DataLoader):
    def __iter__(self):
        for x, y in super().__iter__():
            yield 2 * x, y


LOADERS: dict[str, Any] = {
    "uneven last batch": lambda: DataLoader(data(23), 8),
    "drop_last": lambda: DataLoader(data(23), 8, drop_last=True),
    "shuffle": lambda: DataLoader(data(23), 8, shuffle=True),
    "own generator": lambda: DataLoader(data(23), 8, shuffle=True, generator=torch.Generator().manual_seed(5)),
    "fewer samples than processes": lambda: DataLoader(data(1), 8),
    "batch smaller than the processes": lambda: DataLoader(data(7), 2, shuffle=True),
    "batch of one": lambda: DataLoader(data(5), 1),
    "custom sampler": lambda: DataLoader(data(23), 8, sampler=EveryThird()),
    "sampler that draws on the way": lambda: DataLoader(data(23), 8, sampler=LazilyShuffled()),
    "WeightedRandomSampler": lambda: DataLoader(data(23), 8, sampler=WeightedRandomSampler(torch.arange(1.0, 24), 30)),
    "with replacement": lambda: DataLoader(data(23), 8, sampler=RandomSampler(data(23), replacement=True, num_samples=50)),
    "custom batch_sampler": lambda: DataLoader(data(23), batch_sampler=Growing()),
    "BatchSampler": lambda: DataLoader(data(23), batch_sampler=BatchSampler(RandomSampler(data(23)), 5, False)),
    "iterable": lambda: DataLoader(Stream(23), 8),
    "iterable with length": lambda: DataLoader(SizedStream(23), 8),
    "iterable, drop_last": lambda: DataLoader(Stream(23), 8, drop_last=True),
    "iterable that draws": lambda: DataLoader(NoisyStream(23), 8),
    "batch_size=None": lambda: DataLoader(Batched(), batch_size=None, shuffle=True),
    "own __iter__": lambda: OwnLoader(data(23), 8, shuffle=True),
}


@pytest.mark.parametrize("n", NS)
@pytest.mark.parametrize("kind", LOADERS)
def test_training_on(kind, n):
    assert_same_training(lambda trainer: fit(trainer, LOADERS[kind]()), n)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_workers(stream, persistent, n):
    def program(trainer):
        dataset, shuffle = (Stream(16), None) if stream else (data(23), True)
        return fit(trainer, DataLoader(dataset, 8, shuffle=shuffle, num_workers=2, persistent_workers=persistent, timeout=30))

    assert_same_training(program, n)


@pytest.mark.parametrize("n", NS)
def test_collate_global_sees_the_whole_batch(n):
    def centred(samples):
        x, y = (torch.stack(part) for part in zip(*samples, strict=True))
        return x - x.mean(0), y

    from accel_runtime import DataLoaderConfiguration

    assert_same_training(
        lambda trainer: fit(trainer, DataLoader(data(23), 8, shuffle=True, collate_fn=centred)),
        n,
        dataloader_config=DataLoaderConfiguration(split_batches=True, collate="global"),
    )


@pytest.mark.parametrize("n", NS)
def test_collate_rows_cuts_what_samples_were_made_into(n):
    def in_parts(samples):
        rows = [(x * k, y) for x, y in samples for k in range(1, 2 + int(x.sum() > 0) * 3)]
        x, y = (torch.stack(part) for part in zip(*rows, strict=True))
        return x + 0.01 * torch.rand(len(x), 1), y

    from accel_runtime import DataLoaderConfiguration

    assert_same_training(
        lambda trainer: fit(trainer, DataLoader(data(23), 8, shuffle=True, collate_fn=in_parts)),
        n,
        dataloader_config=DataLoaderConfiguration(split_batches=True, collate="rows"),
    )


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("kind", ["shuffle", "fewer samples than processes", "iterable that draws", "own __iter__"])
def test_dispatch_reads_once_and_trains_the_same(kind, n):
    from accel_runtime import DataLoaderConfiguration

    config = DataLoaderConfiguration(split_batches=True, dispatch_batches=True)
    assert_same_training(lambda trainer: fit(trainer, LOADERS[kind]()), n, dataloader_config=config)


def test_a_seedable_sampler_gives_each_epoch_its_own_order_on_any_number_of_processes():
    from accel_runtime import DataLoaderConfiguration

    def program(trainer):
        loader = trainer.prepare(DataLoader(data(12), 4, shuffle=True))
        return {"rows": [trainer.gather_for_metrics(x) for _ in range(2) for x, _ in loader]}

    config = DataLoaderConfiguration(split_batches=True, use_seedable_sampler=True, data_seed=7)
    one, two = (accelerated(program, n, dataloader_config=config)[0]["rows"] for n in (1, 2))
    assert_identical(two, one)
    assert not torch.equal(torch.cat(one[:3]), torch.cat(one[3:]))


@dataclass
class Sample:
    x: torch.Tensor
    y: torch.Tensor
    name: str = "all"


class BatchEncoding(UserDict):
    """Like the tokenizers' one: a mapping with a method `to`."""

    def to(self, device):
        return self


def _pair(samples):
    return torch.stack([s[0] for s in samples]), torch.stack([s[1] for s in samples])


SHAPES: dict[str, Any] = {
    "tuple": (lambda s: _pair(s), lambda b: b),
    "dict": (lambda s: dict(zip("xy", _pair(s), strict=True)), lambda b: (b["x"], b["y"])),
    "namedtuple": (lambda s: Pair(*_pair(s)), lambda b: (b.x, b.y)),
    "dataclass": (lambda s: Sample(*_pair(s)), lambda b: (b.x, b.y)),
    "BatchEncoding": (lambda s: BatchEncoding(zip("xy", _pair(s), strict=True)), lambda b: (b.data["x"], b["y"])),
    "nested with non-tensors": (
        lambda s: {"in": [_pair(s)[0], "text", None], "out": {"y": _pair(s)[1], "n": 3}, "ids": ["a"] * len(s)},
        lambda b: (b["in"][0], b["out"]["y"]),
    ),
}


@pytest.mark.parametrize("collate", ["local", "global"])
@pytest.mark.parametrize("shape", SHAPES)
def test_batches_keep_their_class(shape, collate):
    from accel_runtime import DataLoaderConfiguration

    collate_fn, split = SHAPES[shape]

    def program(trainer):
        loader = DataLoader(data(11), 4, shuffle=True, collate_fn=collate_fn)
        kinds = []
        result = fit(trainer, loader, split=lambda batch: kinds.append(type(batch).__name__) or split(batch))
        return {**result, "kinds": kinds}

    assert_same_training(program, 3, dataloader_config=DataLoaderConfiguration(split_batches=True, collate=collate))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_prepared_loader_reads_like_the_original(n):
    def program(trainer):
        original = DataLoader(data(23), 8, shuffle=True)
        loader = trainer.prepare(original)
        again = trainer.prepare(loader)
        assert isinstance(loader, DataLoader) and again is loader
        assert loader.dataset is original.dataset and loader.sampler is original.sampler
        return {"read": [len(loader), loader.batch_size, loader.drop_last, loader.num_workers, len(list(loader))]}

    expected = plain(program)["read"]
    assert all(got["read"] == expected for got in accelerated(program, n))


def test_shuffling_survives_streams_that_drift():
    def program(trainer):
        loader = trainer.prepare(DataLoader(data(12), 6, shuffle=True))
        seen = []
        for _ in range(3):
            for x, _ in loader:
                seen.append(x)
                torch.rand(1 + 7 * getattr(trainer, "process_index", 0))
        return {"seen": seen}

    first, second, third = accelerated(program, 3)
    rows = torch.cat([torch.cat([a, b, c]) for a, b, c in zip(first["seen"], second["seen"], third["seen"], strict=True)])
    whole = data(12).tensors[0]
    for epoch in rows.split(12):
        assert sorted(epoch[:, 0].tolist()) == sorted(whole[:, 0].tolist())


def test_workers_of_different_processes_draw_different_augmentations():
    class Augmented(Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, i):
            return torch.rand(1)

    def program(trainer):
        loader = trainer.prepare(DataLoader(Augmented(), 8, num_workers=1, timeout=30))
        return {"noise": torch.cat(list(loader))}

    first, second = accelerated(program, 2)
    assert not set(first["noise"].flatten().tolist()) & set(second["noise"].flatten().tolist())


def test_an_already_sharded_loader_is_refused():
    def program(trainer):
        trainer.prepare(DataLoader(data(8), 4, sampler=DistributedSampler(data(8), 2, 0)))
        return {}

    with pytest.raises(RanksFailed, match="DistributedSampler"):
        accelerated(program, 2)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_skipping_batches(n):
    def program(trainer):
        loader = trainer.prepare(DataLoader(data(23), 4, shuffle=True))
        batches = list(loader.skipping(2) if hasattr(loader, "skipping") else list(loader)[2:])
        return {"x": [trainer.gather_for_metrics(x) for x, _ in batches]}

    for got in accelerated(program, n):
        assert_identical(got["x"], plain(program)["x"])


@pytest.mark.parametrize("kind", [Stream, NoisyStream])
def test_batches_of_a_stream_that_are_skipped_are_read_but_not_collated(kind):
    def program(trainer):
        loader = trainer.prepare(DataLoader(kind(23), 4))
        batches = list(loader.skipping(2) if hasattr(loader, "skipping") else list(loader)[2:])
        return {"x": [trainer.gather_for_metrics(x) for x, _ in batches]}

    expected = plain(program)["x"]
    for got in accelerated(program, 2):
        assert_identical(got["x"], expected)


class Failing(Stream):
    def __iter__(self):
        yield from self.samples[:8]
        raise OSError("no such shard")


def test_a_failure_to_read_reaches_the_processes_that_do_not_read():
    from accel_runtime import DataLoaderConfiguration

    def program(trainer):
        try:
            list(trainer.prepare(DataLoader(Failing(9), 4)))
        except Exception as error:
            return {"error": repr(error)}

    config = DataLoaderConfiguration(split_batches=True, dispatch_batches=True)
    first, second = (got["error"] for got in accelerated(program, 2, dataloader_config=config))
    assert "OSError" in first and "the main process failed to read" in second and "no such shard" in second


class Augmented(Dataset):
    """Noise from the global streams, or from a generator of its own."""

    def __init__(self, own: bool = False):
        self.samples = list(data(23))
        self.generator = numpy.random.default_rng(5) if own else None
        self.read = 0

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        self.read += 1
        x, y = self.samples[i]
        if self.generator is not None:
            return x + torch.from_numpy(self.generator.normal(size=x.shape)).to(x), y
        return x * random.choice([1, -1]) + 0.1 * torch.randn_like(x) + numpy.random.rand(), y


def _noisy_collation(samples):
    x, y = default_collate(samples)
    return x * (torch.rand(x.shape) < 0.9), y


@pytest.mark.parametrize("n", NS)
@pytest.mark.parametrize(
    "loader",
    [
        lambda: DataLoader(Augmented(), 8, shuffle=True),
        lambda: DataLoader(Augmented(own=True), 8, shuffle=True),
        lambda: DataLoader(Augmented(), 3, collate_fn=_noisy_collation),
        lambda: DataLoader(data(23), 8, shuffle=True, collate_fn=_noisy_collation),
    ],
    ids=["global streams", "a generator of its own", "collation too", "collation"],
)
def test_without_workers_augmentation_is_that_of_one_process(loader, n):
    assert_same_training(lambda trainer: fit(trainer, loader(), epochs=1), n)


def test_streams_that_augmentation_uses_stay_in_step():
    def program(trainer):
        loader = trainer.prepare(DataLoader(Augmented(), 8, shuffle=True))
        return {"choices": [random.random() for _ in range(2) for _ in loader]}

    assert all(got["choices"] == plain(program)["choices"] for got in accelerated(program, 3))


def test_a_data_set_that_draws_nothing_is_read_in_parts():
    class Plain(Augmented):
        def __getitem__(self, i):
            self.read += 1
            return self.samples[i]

    def program(trainer):
        dataset = Plain()
        for _ in trainer.prepare(DataLoader(dataset, 4)):
            pass
        return {"read": dataset.read}

    assert [got["read"] for got in accelerated(program, 2)] == [4 + 2 * 4 + 2, 4 + 2 * 4 + 1]
