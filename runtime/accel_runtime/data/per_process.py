"""The loader that `prepare` returns in per-process mode: every process draws its own batches of the size in the script.

Three sources of batches: map-style data through `BatchSamplerShard`, streams through `IterableDatasetShard`, and
dispatch, where the main process reads for all (the default for streams). Loaders that already share out their data (a
`DistributedSampler`, a data set sharded by the user with `DataLoaderConfiguration(dispatch_batches=False)`) are only
placed on the device.

Epochs: each pass takes the next epoch number; `set_epoch` chooses it. The shuffle of a pass depends on the seed at
`prepare` and on the epoch only, so it never differs between processes, and a resumed run that sets the epoch finds the
order of the interrupted one. Workers of different processes draw different augmentations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data.distributed import DistributedSampler

from ..kwargs import DataLoaderConfiguration
from ..nested import send_to_device
from ..state import GradientState
from ..world import World
from .face import LoaderFace, iterates_plainly, rebuild
from .order import samplers, seed_sampler
from .position import Position, put, take
from .sources import Batches, Dispatched, Own, Sharded, Share, Source, Stream

Hook = Callable[[], Any]


def prepare_per_process(
    world: World,
    loader: DataLoader[Any],
    config: DataLoaderConfiguration,
    place: bool = True,
    slice_fn: Callable[..., Any] | None = None,
    tracker: Any = None,
    on_start: Hook | None = None,
    share: Share | None = None,
) -> PerProcessLoader:
    """Share `loader` out among the processes of `world`.

    Args:
        world: the processes.
        loader: the user's loader; its samplers get generators of their own.
        config: dispatch, even batches, seedable sampler.
        place: move batches to the device.
        slice_fn: cuts a joined batch for dispatch, as `slice_fn(batch, slice, process_index=, num_processes=)`.
        tracker: told when a pass begins and ends.
        on_start: called at the beginning of each pass.
        share: which part of the data is this process's; default: that of its rank.

    Raises:
        ValueError: `dispatch_batches=True` without placing batches on devices.
    """
    if config.dispatch_batches and not place:
        raise ValueError("dispatch_batches=True needs device_placement=True: batches arrive on the process's device")
    source = _source(world, loader, config, place, slice_fn, share or Share(world.rank, world.size))
    device = world.device if place and world.device.type != "cpu" else None
    return PerProcessLoader(loader, source, device, config.non_blocking, tracker, on_start)


class PerProcessLoader(LoaderFace):
    """A DataLoader of this process's batches, whose other attributes are the original's.

    Attributes:
        original: the user's loader.
        iteration: the epoch of the next pass.
        end_of_dataloader: whether the last batch has been delivered.
        remainder: rows of the present global batch that are no repetitions, 0 if none is one, -1 if unknown.
    """

    own_attributes = frozenset(
        {"original", "source", "device", "non_blocking", "tracker", "on_start", "skip", "iteration", "_told"}
        | {"end_of_dataloader", "remainder", "batches_left", "again", "_root", "last_run", "_began"}
    )

    def __init__(
        self,
        original: DataLoader[Any],
        source: Source,
        device: torch.device | None = None,
        non_blocking: bool = False,
        tracker: Any = None,
        on_start: Hook | None = None,
        skip: int = 0,
    ):
        self.original = original
        self.source = source
        self.device = device
        self.non_blocking = non_blocking
        self.tracker = tracker
        self.on_start = on_start
        self.skip = skip
        self.iteration = 0
        self.end_of_dataloader = False
        self.remainder = -1
        self.batches_left: int | None = None
        self._told: int | None = None
        self.again: Position | None = None
        self._root: Any = None
        self.last_run: Any = None
        self._began: tuple[Any, bool, int] | None = None

    def skipping(self, batches: int) -> PerProcessLoader:
        """The same loader, `batches` later in each pass; it goes on with the epoch that this one has come to.

        After `load_state` in mid-epoch, the number counts from the beginning of the epoch, and replaces the position saved.
        """
        later = PerProcessLoader(
            self.original, self.source, self.device, self.non_blocking, self.tracker, self.on_start, self.skip + batches
        )
        later.iteration, later._told, later._root = self.iteration, self._told, self.root
        if self.again is not None:
            later.again, self.again = replace(self.again, batches=0), None
        return later

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        again, self.again = self.again, None
        if again is not None and again.start is not None:
            return self._go_on(again)
        began = take(self.original)
        self._begin_epoch()
        self._began = (began, False, self.source.epoch)
        if self.on_start is not None:
            self.on_start()
        return Pass(self)

    def _go_on(self, again: Position) -> Pass:
        """The rest of a pass that was interrupted, with the streams as they were then."""
        put(self.original, again.start)
        self._began = (again.start, False, again.epoch or 0)
        self.set_epoch(again.epoch or 0)
        self.iteration += 1
        rest = Pass(self, again.batches)
        if again.now is not None:
            put(self.original, again.now)
        return rest

    def position(self) -> Position | None:
        """Where the pass in progress has come to; None where there is none."""
        run = self.last_run
        if run is None or self._began is None or run not in self.tracker.runs:
            return None
        return Position(self.skip + run.count, self._began[0], None, self._began[1], self._began[2])

    @property
    def batches_seen(self) -> int:
        """The number, in its epoch, of the next batch: 0 at the beginning, more where an interrupted epoch goes on."""
        if self.again is not None:
            return self.skip + self.again.batches
        run = self.last_run
        return self.skip + (run.count if run is not None and run in self.tracker.runs else 0)

    def __len__(self) -> int:
        return max(self.source.length() - self.skip, 0)

    @property
    def root(self) -> Any:
        """The loader that `prepare` returned, of which this one may be a later beginning."""
        return self if self._root is None else self._root

    @property
    def reads_original(self) -> bool:
        return self.source.reads_original

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next pass, here and in the samplers and data sets that know epochs."""
        self.iteration = epoch
        self.source.set_epoch(epoch)
        self._told = epoch

    def _begin_epoch(self) -> None:
        chosen = self.source.epoch_chosen_by_user(self._told)
        self.set_epoch(self.iteration if chosen is None else chosen)
        self.iteration += 1

    @property
    def batch_sampler(self) -> Any:  # type: ignore[override]
        """Gives this process's batches of map-style data; its own `batch_sampler` is the original's."""
        return self.source.batch_sampler

    @property
    def total_batch_size(self) -> int | None:
        """Samples in a full global batch."""
        return self.source.total_batch_size()

    @property
    def total_dataset_length(self) -> int:
        """Samples in the data set."""
        return len(self.original.dataset)  # type: ignore[arg-type]


class Pass:
    """One pass over a loader; fetches one batch ahead, unless the length is known, to recognise the last."""

    def __init__(self, loader: PerProcessLoader, delivered: int = 0):
        self.loader = loader
        self.items = loader.source.open(loader.skip + delivered)
        self.left = None if loader.ends_early() else loader.source.known_length(loader.skip + delivered)
        self.tracker, self.device = loader.tracker, loader.device
        self.state = GradientState()
        self.state._add_dataloader(loader)
        self.run = loader.tracker.start(self.left, loader) if loader.tracker is not None else None
        loader.last_run = self.run
        if self.run is not None and delivered:
            self.run.count = self.run.begun = delivered
            self.run.length = None if self.left is None else self.left + delivered
        loader.end_of_dataloader, loader.remainder, loader.batches_left = False, -1, self.left
        self.held = self._fetch() if self.left is None else None
        self.open = True

    def __iter__(self) -> Pass:
        return self

    def __next__(self) -> Any:
        tracker, loader = self.tracker, self.loader
        known = loader.__dict__  # its `__setattr__` asks of each name whose it is
        if tracker is not None and tracker.between_steps is not None:
            tracker.before_batch()
        if self.left is None:
            item = self.held
            self.held = self._fetch(holds=True) if item is not None else None
            ends = self.held is None
        else:
            item = self._fetch()
            self.left = left = max(self.left - 1, 0)
            ends = left == 0
            known["batches_left"] = left
        known["end_of_dataloader"] = ends
        if item is None:
            self.close()
            raise StopIteration
        if self.run is not None:
            self.run.count += 1
            self.run.at_end = ends
        known["remainder"], batch = item
        return batch if self.device is None else send_to_device(batch, self.device, loader.non_blocking)

    def _fetch(self, holds: bool = False) -> tuple[int, Any] | None:
        self.loader.begin_fetch(holds)
        return next(self.items, None)

    def close(self) -> None:
        """The pass is over, or was abandoned."""
        if self.open:
            self.open = False
            self.state._remove_dataloader(self.loader)
            if self.run is not None:
                self.run.close()

    def __del__(self) -> None:
        if hasattr(self, "open"):
            self.close()


def _source(
    world: World, loader: DataLoader[Any], config: DataLoaderConfiguration, place: bool, slice_fn: Any, share: Share
) -> Source:
    if _is_sharded(loader):
        return Own(world, loader, share)
    is_stream = isinstance(loader.dataset, IterableDataset)
    if config.use_seedable_sampler:
        seed_sampler(world, loader, config.data_seed)
    if is_stream and place if config.dispatch_batches is None else config.dispatch_batches:
        return Dispatched(world, loader, slice_fn)
    if not iterates_plainly(loader):
        return Batches(world, loader, share)
    if not is_stream:
        return Sharded(world, loader, share, config.even_batches)
    by_source = _sharded_by_source(share, loader)
    return Stream(world, loader, share) if by_source is None else Own(world, by_source, share)


def _is_sharded(loader: DataLoader[Any]) -> bool:
    """Whether the user has shared out the data: every process would get a part of its part."""
    return any(isinstance(part, DistributedSampler) for part in samplers(loader))


def _sharded_by_source(share: Share, loader: DataLoader[Any]) -> DataLoader[Any] | None:
    """A Hugging Face data set in enough files is read in different files by different processes."""
    shards = getattr(loader.dataset, "n_shards", 0)
    if not hasattr(loader.dataset, "shard") or not isinstance(shards, int) or shards < share.count:
        return None
    part = loader.dataset.shard(num_shards=share.count, index=share.index)
    return rebuild(loader, part, batch_size=loader.batch_size, drop_last=loader.drop_last)
