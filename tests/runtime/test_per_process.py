"""Per-process mode: who draws which batches, and how many of the gathered rows are real."""

from __future__ import annotations

from collections import UserDict, namedtuple

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, WeightedRandomSampler
from torch.utils.data.distributed import DistributedSampler

from accel_runtime import collectives
from accel_runtime.data.per_process import prepare_per_process
from accel_runtime.data.samplers import BatchSamplerShard
from accel_runtime.data.skip import skip_first_batches
from accel_runtime.data.streams import IterableDatasetShard
from accel_runtime.kwargs import DataLoaderConfiguration
from accel_runtime.state import GradientState
from accel_runtime.world import World

from .ranks import RanksFailed, run_ranks


class Numbers(IterableDataset):
    """A stream of numbers, in one worker or dealt out to several."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        return iter(range(worker.id if worker else 0, self.n, worker.num_workers if worker else 1))


class Shuffled(IterableDataset):
    def __iter__(self):
        return iter(torch.randperm(10).tolist())


class Augmented(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.rand(())


def each(n, make, config=None, passes=1, drift=False, **options):
    """On each rank: for each pass the list of (batch, real rows among the gathered ones, is the last)."""

    def body():
        world = World.from_environment()
        torch.manual_seed(0)
        loader = prepare_per_process(world, make(), config or DataLoaderConfiguration(), **options)
        seen = []
        for _ in range(passes):
            if drift:
                torch.rand(world.rank + 1)
            seen.append([(batch.tolist(), GradientState().remainder, GradientState().end_of_dataloader) for batch in loader])
        assert not GradientState().in_dataloader
        return seen

    return run_ranks(body, n)


def batches(seen):
    return [[batch for batch, _, _ in one] for one in seen]


def gathered(n, results, which=0):
    """The rows that gather_for_metrics would return, in order."""
    rows = []
    for step in zip(*(result[which] for result in results), strict=True):
        together = [row for batch, _, _ in step for row in batch]
        remainder = step[0][1]
        rows += together[:remainder] if remainder > 0 else together
    return rows


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("workers", [0, 2])
def test_every_nth_batch_completed_from_the_beginning(n, workers):
    results = each(n, lambda: DataLoader(range(13), batch_size=3, num_workers=workers))
    assert gathered(n, results) == list(range(13))
    assert len({len(result[0]) for result in results}) == 1
    assert [last for _, _, last in results[0][0]] == [False] * (len(results[0][0]) - 1) + [True]
    if n == 2:
        assert batches(results[0]) == [[[0, 1, 2], [6, 7, 8], [12, 0, 1]]]
        assert batches(results[1]) == [[[3, 4, 5], [9, 10, 11], [2, 3, 4]]]


def test_uneven_batches_and_drop_last():
    uneven = DataLoaderConfiguration(even_batches=False)
    assert [batches(r)[0] for r in each(2, lambda: DataLoader(range(5), batch_size=2), uneven)] == [[[0, 1], [4]], [[2, 3]]]
    dropped = each(2, lambda: DataLoader(range(11), batch_size=2, drop_last=True))
    assert [batches(r)[0] for r in dropped] == [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]


def test_fewer_samples_than_processes():
    results = each(3, lambda: DataLoader([5], batch_size=2))
    assert gathered(3, results) == [5] and batches(results[2]) == [[[5, 5]]]


@pytest.mark.parametrize("data", ["shuffle", "weighted", "generator", "custom"])
def test_shuffles_agree_whatever_else_was_drawn_and_differ_between_epochs(data):
    def make():
        if data == "shuffle":
            return DataLoader(range(12), batch_size=2, shuffle=True)
        if data == "weighted":
            return DataLoader(range(12), batch_size=2, sampler=WeightedRandomSampler([1.0] * 12, 12, replacement=False))
        if data == "generator":
            return DataLoader(range(12), batch_size=2, shuffle=True, generator=torch.Generator().manual_seed(3))

        class Lazy:
            def __iter__(self):
                left = list(range(12))
                while left:
                    yield [left.pop(int(torch.randint(len(left), ()))), left.pop(int(torch.randint(len(left), ())))]

        return DataLoader(range(12), batch_sampler=Lazy())

    results = each(2, make, passes=2, drift=True)
    first, second = gathered(2, results, 0), gathered(2, results, 1)
    assert sorted(first) == sorted(second) == list(range(12)) and first != second != sorted(second)


def test_an_epoch_set_again_gives_its_order_again():
    def body():
        world = World.from_environment()
        torch.manual_seed(5)
        loader = prepare_per_process(world, DataLoader(range(40), batch_size=2, shuffle=True), DataLoaderConfiguration())
        orders = [[b.tolist() for b in loader] for _ in range(3)]
        next(iter(loader))  # an abandoned pass
        assert not GradientState().in_dataloader
        loader.set_epoch(1)
        resumed = skip_first_batches(loader, 3)
        assert len(resumed) == 7 and [b.tolist() for b in resumed] == orders[1][3:]
        assert [b.tolist() for b in resumed] == [*map(list, orders[2][3:])]

    run_ranks(body, 2)


def test_seedable_sampler_depends_on_seed_and_epoch_only():
    config = DataLoaderConfiguration(use_seedable_sampler=True, data_seed=7)
    one, other = (each(2, lambda: DataLoader(range(9), batch_size=2, shuffle=True), config, passes=2, drift=drift) for drift in (False, True))
    assert one == other and sorted(gathered(2, one)) == list(range(9))
    assert gathered(2, one, 0) != gathered(2, one, 1)


def test_the_users_own_distributed_sampler_is_left_alone():
    def make():
        world = World.from_environment()
        return DataLoader(range(8), batch_size=2, sampler=DistributedSampler(range(8), world.size, world.rank, shuffle=False))

    assert [batches(r)[0] for r in each(2, make)] == [[[0, 2], [4, 6]], [[1, 3], [5, 7]]]


def test_epochs_told_to_the_sampler_itself_count():
    def body():
        world = World.from_environment()
        sampler = DistributedSampler(range(16), world.size, world.rank, seed=3)
        loader = prepare_per_process(world, DataLoader(range(16), batch_size=4, sampler=sampler), DataLoaderConfiguration())
        sampler.set_epoch(5)
        seen = [b.tolist() for b in loader]
        plain = DistributedSampler(range(16), world.size, world.rank, seed=3)
        plain.set_epoch(5)
        assert [i for b in seen for i in b] == list(plain)

    run_ranks(body, 2)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("n", [2, 3])
def test_sharded_streams_count_exactly(n, workers):
    config = DataLoaderConfiguration(dispatch_batches=False)
    results = each(n, lambda: DataLoader(Numbers(13), batch_size=2, num_workers=workers), config)
    assert sorted(gathered(n, results)) == list(range(13))
    assert [last for _, _, last in results[0][0]].index(True) == len(results[0][0]) - 1


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("length", [12, 13, 1])
def test_dispatched_streams_count_exactly(n, length):
    results = each(n, lambda: DataLoader(Numbers(length), batch_size=2))
    assert gathered(n, results) == list(range(length))
    assert results[0][0][-1][2]


def test_random_streams_agree():
    results = each(2, lambda: DataLoader(Shuffled(), batch_size=2), DataLoaderConfiguration(dispatch_batches=False), drift=True)
    assert sorted(gathered(2, results)) == list(range(10))


def test_elements_of_an_unbatched_stream_are_batches():
    class Batches(IterableDataset):
        def __iter__(self):
            return iter(torch.arange(10).view(5, 2))

    results = each(2, lambda: DataLoader(Batches(), batch_size=None), DataLoaderConfiguration(dispatch_batches=False))
    assert gathered(2, results) == list(range(10)) and len(results[1][0]) == 3


def test_a_sampler_of_batches_and_single_samples():
    batched = each(2, lambda: DataLoader(torch.arange(5), sampler=BatchSampler(range(5), 2, False), batch_size=None))
    assert gathered(2, batched) == list(range(5))
    single = each(2, lambda: DataLoader(torch.arange(4), batch_size=None))
    assert [batches(r)[0] for r in single] == [[0, 2], [1, 3]]


def test_loaders_with_an_iteration_of_their_own_keep_it():
    class Doubled(DataLoader):
        def __iter__(self):
            return (2 * batch for batch in super().__iter__())

    results = each(2, lambda: Doubled(torch.arange(6), batch_size=2))
    assert gathered(2, results) == [0, 2, 4, 6, 8, 10]


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_of_different_processes_draw_different_augmentations(persistent):
    results = each(2, lambda: DataLoader(Augmented(), batch_size=2, num_workers=1, persistent_workers=persistent), passes=2)
    drawn = [value for result in results for one in batches(result) for batch in one for value in batch]
    assert len(set(drawn)) == len(drawn) == 16


def test_dispatch_passes_non_tensors_and_keeps_classes():
    Pair = namedtuple("Pair", "x names")

    def collate(samples):
        return UserDict(pair=Pair(torch.tensor(samples), [f"n{s}" for s in samples]), source="corpus", h=torch.tensor(samples).bfloat16())

    def body():
        world = World.from_environment()
        loader = prepare_per_process(world, DataLoader(Numbers(5), batch_size=2, collate_fn=collate), DataLoaderConfiguration())
        rows = []
        for batch in loader:
            assert type(batch) is UserDict and type(batch["pair"]).__name__ == "Pair" and batch["source"] == "corpus"
            assert batch["h"].dtype is torch.bfloat16 and batch["pair"].names == [f"n{int(x)}" for x in batch["pair"].x]
            names = collectives.gather_object(world, batch["pair"].names)
            rows += names[: loader.remainder] if loader.remainder > 0 else names
        return rows

    globals()["Pair"] = Pair  # pickled by name
    Pair.__module__, Pair.__qualname__ = __name__, "Pair"
    assert run_ranks(body, 2) == [[f"n{i}" for i in range(5)]] * 2


def test_a_failing_main_process_stops_the_others():
    class Broken(IterableDataset):
        def __iter__(self):
            yield from range(4)
            raise OSError("disk gone")

    with pytest.raises(RanksFailed, match="the main process failed to read the next batch: OSError: disk gone") as caught:
        each(2, lambda: DataLoader(Broken(), batch_size=1))
    assert "OSError: disk gone" in caught.value.errors[0]


@pytest.mark.parametrize("dispatched", [True, False])
def test_skipping_a_stream(dispatched):
    def body():
        world = World.from_environment()
        config = DataLoaderConfiguration(dispatch_batches=dispatched)
        loader = prepare_per_process(world, DataLoader(Numbers(11), batch_size=2), config)
        whole = [(b.tolist(), loader.remainder) for b in loader]
        later = skip_first_batches(loader, 2)
        assert [(b.tolist(), later.remainder) for b in later] == whole[2:]

    run_ranks(body, 2)


def test_the_face_is_the_originals():
    def body():
        original = DataLoader(range(10), batch_size=2, shuffle=True)
        loader = prepare_per_process(World.from_environment(), original, DataLoaderConfiguration())
        assert isinstance(loader, DataLoader) and loader.dataset is original.dataset and loader.batch_size == 2
        assert (len(loader), loader.total_batch_size, loader.total_dataset_length) == (3, 4, 10)
        assert not hasattr(loader, "no_such_thing")
        return True

    assert run_ranks(body, 2) == [True, True]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize("split", [False, True])
def test_shards_skip_as_if_they_had_run(drop_last, even, split):
    for length in range(30):
        sampler = BatchSampler(range(length), 4, drop_last)
        for rank in range(2):
            shard = BatchSamplerShard(sampler, 2, rank, split, even)
            whole = list(shard.counted())
            assert len(shard) == len(whole) or (split and not even)
            assert all(list(shard.counted(skip)) == whole[skip:] for skip in range(5))


def test_shards_of_batches_of_varying_size():
    sampler = [[0], [1, 2, 3], [4, 5]]
    assert [list(BatchSamplerShard(sampler, 2, rank)) for rank in range(2)] == [[[0], [4, 5]], [[1, 2, 3], [0]]]


def test_batch_sizes_that_do_not_divide_are_refused_when_splitting():
    with pytest.raises(ValueError, match=r"the batch size \(3\) needs to be a round multiple of the number of processes \(2\)"):
        BatchSamplerShard(BatchSampler(range(4), 3, False), 2, 0, split_batches=True)
    with pytest.raises(ValueError, match="round multiple"):
        IterableDatasetShard(range(4), 3, False, 2, 0, split_batches=True)
