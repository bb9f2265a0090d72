"""`accelerate.data_loader`'s names. Scripts need none of them: `Accelerator.prepare` makes loaders."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from .data.face import LoaderFace
from .data.per_process import PerProcessLoader, prepare_per_process
from .data.samplers import BatchSamplerShard, SeedableRandomSampler, SkipBatchSampler
from .data.skip import SkipDataLoader, skip_first_batches
from .data.sources import Dispatched, Own, Share
from .data.stateful import as_stateful, blank
from .data.streams import IterableDatasetShard
from .kwargs import DataLoaderConfiguration
from .world import World

__all__ = [
    "BatchSamplerShard",
    "DataLoaderDispatcher",
    "DataLoaderShard",
    "DataLoaderStateMixin",
    "IterableDatasetShard",
    "SeedableRandomSampler",
    "SkipBatchSampler",
    "SkipDataLoader",
    "prepare_data_loader",
    "skip_first_batches",
]


DataLoaderStateMixin = LoaderFace
"""The class of all loaders that know where they are."""


class DataLoaderShard(PerProcessLoader):
    """A loader over data that is this process's already; `kwargs` are `DataLoader`'s.

    With `use_stateful_dataloader` it has torchdata's `state_dict` and `load_state_dict`.
    """

    def __new__(cls, *args: Any, use_stateful_dataloader: bool = False, **kwargs: Any) -> Any:
        return blank(cls) if use_stateful_dataloader else super().__new__(cls)

    def __init__(
        self,
        dataset: Any,
        device: torch.device | None = None,
        skip_batches: int = 0,
        use_stateful_dataloader: bool = False,
        **kwargs: Any,
    ):
        loader = _made(dataset, use_stateful_dataloader, kwargs)
        world = World.from_environment()
        super().__init__(loader, Own(world, loader, Share(world.rank, world.size)), device, skip=skip_batches)


class DataLoaderDispatcher(PerProcessLoader):
    """A loader that the main process reads for all; `kwargs` are `DataLoader`'s."""

    def __new__(cls, *args: Any, use_stateful_dataloader: bool = False, **kwargs: Any) -> Any:
        return blank(cls) if use_stateful_dataloader else super().__new__(cls)

    def __init__(
        self, dataset: Any, skip_batches: int = 0, slice_fn: Any = None, use_stateful_dataloader: bool = False, **kwargs: Any
    ):
        loader = _made(dataset, use_stateful_dataloader, kwargs)
        world = World.from_environment()
        alone = world.size == 1 and slice_fn is None
        source = Own(world, loader, Share(0, 1)) if alone else Dispatched(world, loader, slice_fn)
        super().__init__(loader, source, skip=skip_batches)


def _made(dataset: Any, stateful: bool, settings: dict[str, Any]) -> DataLoader[Any]:
    loader: DataLoader[Any] = DataLoader(dataset, **settings)
    return as_stateful(loader) if stateful else loader


def prepare_data_loader(
    dataloader: DataLoader[Any],
    device: torch.device | None = None,
    num_processes: int | None = None,
    process_index: int | None = None,
    split_batches: bool = False,
    put_on_device: bool = False,
    rng_types: list[str] | None = None,
    dispatch_batches: bool | None = None,
    even_batches: bool = True,
    slice_fn_for_dispatch: Any = None,
    use_seedable_sampler: bool = False,
    data_seed: int | None = None,
    non_blocking: bool = False,
) -> PerProcessLoader:
    """The part of `dataloader` that belongs to process `process_index` of `num_processes`.

    Raises:
        ValueError: `split_batches`, and the batch size is unknown or does not divide. `Accelerator(split_batches=True)`
            cuts batches of any size.
    """
    world = World.from_environment()
    share = Share(world.rank if process_index is None else process_index, num_processes or world.size)
    if split_batches:
        dataloader = _divided(dataloader, share.count)
    config = DataLoaderConfiguration(
        dispatch_batches=dispatch_batches,
        even_batches=even_batches,
        use_seedable_sampler=use_seedable_sampler,
        data_seed=data_seed,
        non_blocking=non_blocking,
    )
    if share.count == 1 and not dispatch_batches:
        source = Own(world, dataloader, share)
        return PerProcessLoader(dataloader, source, device if put_on_device else None, non_blocking)
    return prepare_per_process(world, dataloader, config, put_on_device, slice_fn_for_dispatch, share=share)


def _divided(loader: DataLoader[Any], count: int) -> DataLoader[Any]:
    """A loader like `loader` whose batches are one process's part of its batches."""
    size = loader.batch_size if loader.batch_size is not None else getattr(loader.batch_sampler, "batch_size", None)
    if size is None:
        raise ValueError("split_batches=True needs a batch size: neither the loader nor its batch sampler has a `batch_size`")
    if size > 1 and size % count:
        raise ValueError(
            f"To use a `DataLoader` in `split_batches` mode, the batch size ({size}) "
            f"needs to be a round multiple of the number of processes ({count})."
        )
    from .data.face import rebuild

    batching = {"batch_size": max(size // count, 1), "drop_last": loader.drop_last}
    if not isinstance(loader.dataset, IterableDataset):
        batching["sampler"] = loader.sampler
    return rebuild(loader, loader.dataset, **batching)
