"""`skip_first_batches`: a loader that begins later, for any kind of loader."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from torch.utils.data import BatchSampler, DataLoader, IterableDataset

from .face import LoaderFace, rebuild
from .samplers import SkipBatchSampler
from .stateful import as_stateful, blank


def skip_first_batches(dataloader: Any, num_batches: int = 0) -> Any:
    """Return a loader over the same batches without the first `num_batches`, in each of its passes.

    Of map-style data the skipped samples are not read: the order is drawn as ever and the beginning passed over. A stream
    has to be read. Prepared loaders stay prepared, and go on with the epoch that they have come to.
    """
    if num_batches <= 0:
        return dataloader
    if hasattr(dataloader, "skipping"):
        return dataloader.skipping(num_batches)
    if not isinstance(dataloader, DataLoader):
        return SkipIterable(dataloader, num_batches)
    if isinstance(dataloader.dataset, IterableDataset) or type(dataloader).__iter__ is not DataLoader.__iter__:
        return SkipDataLoader.over(dataloader, num_batches)
    batch_sampler = dataloader.batch_sampler
    if batch_sampler is not None:
        return rebuild(dataloader, dataloader.dataset, batch_sampler=SkipBatchSampler(batch_sampler, num_batches))
    sampler: Any = dataloader.sampler
    skipped = SkipBatchSampler(sampler, num_batches) if isinstance(sampler, BatchSampler) else SkipIterable(sampler, num_batches)
    return rebuild(dataloader, dataloader.dataset, sampler=skipped, batch_size=None)


class SkipDataLoader(LoaderFace):
    """A loader that reads and drops its first `skip_batches` batches; `kwargs` are `DataLoader`'s.

    With `use_stateful_dataloader` it has torchdata's `state_dict` and `load_state_dict`.
    """

    own_attributes = frozenset({"original", "skip_batches"})

    def __new__(cls, *args: Any, use_stateful_dataloader: bool = False, **kwargs: Any) -> Any:
        return blank(cls) if use_stateful_dataloader else super().__new__(cls)

    def __init__(self, dataset: Any, skip_batches: int = 0, use_stateful_dataloader: bool = False, **kwargs: Any):
        loader: DataLoader[Any] = DataLoader(dataset, **kwargs)
        self.original = as_stateful(loader) if use_stateful_dataloader else loader
        self.skip_batches = skip_batches

    @classmethod
    def over(cls, original: DataLoader[Any], skip_batches: int) -> SkipDataLoader:
        """The batches of `original` without the first."""
        loader = cls.__new__(cls)
        loader.original, loader.skip_batches = original, skip_batches
        return loader

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        return itertools.islice(iter(self.original), self.skip_batches, None)

    def __len__(self) -> int:
        return max(len(self.original) - self.skip_batches, 0)


class SkipIterable:
    """Any iterable without its first `count` items."""

    def __init__(self, items: Any, count: int):
        self.items = items
        self.count = count

    def __iter__(self) -> Iterator[Any]:
        return itertools.islice(iter(self.items), self.count, None)

    def __len__(self) -> int:
        return max(len(self.items) - self.count, 0)
