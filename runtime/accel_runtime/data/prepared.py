"""The loader that `prepare` returns in exact mode and on one process: the original's face, this process's batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, default_collate

from .. import xla
from ..batches import Tracker
from ..nested import send_to_device
from ..passes import Run
from ..state import GradientState
from ..world import World
from .exact import BatchCutter, cutter
from .face import LoaderFace
from .position import Position, put, take


class PreparedLoader(LoaderFace):
    """A DataLoader whose attributes and length are the original's, and whose batches are this process's rows, on its device.

    Attributes:
        original: the user's loader.
        skip: batches left out at the beginning of each pass.
        look_ahead: whether a loader of unknown length fetches one batch ahead to recognise its last.
    """

    own_attributes = frozenset({"original", "world", "tracker", "place", "non_blocking", "collate", "skip", "dispatch", "look_ahead", "last_run", "_cutter"} | {"again", "_root", "_began"})

    def __init__(
        self,
        original: DataLoader[Any],
        world: World,
        tracker: Tracker,
        *,
        place: bool = True,
        non_blocking: bool = False,
        collate: str = "local",
        skip: int = 0,
        dispatch: bool = False,
        look_ahead: Callable[[], bool] = lambda: False,
    ) -> None:
        self.original = original
        self.world = world
        self.tracker = tracker
        self.place = place and (world.device.type != "cpu" or torch.cuda.is_initialized())
        self.non_blocking = non_blocking
        self.collate = collate
        self.skip = skip
        self.dispatch = dispatch
        self.look_ahead = look_ahead
        self.last_run: Run | None = None
        self.again: Position | None = None
        self._root: Any = None
        self._began: tuple[Any, bool] | None = None
        self._cutter = cutter(original, world, collate, skip, dispatch) if world.together.size > 1 or skip else None

    def skipping(self, batches: int) -> PreparedLoader:
        """A loader over the same data which leaves out `batches` more batches at the beginning of each pass.

        After `load_state` in mid-epoch, the number counts from the beginning of the epoch, and replaces the position saved.
        """
        later = PreparedLoader(
            self.original,
            self.world,
            self.tracker,
            place=self.place,
            non_blocking=self.non_blocking,
            collate=self.collate,
            skip=self.skip + batches,
            dispatch=self.dispatch,
            look_ahead=self.look_ahead,
        )
        later._root = self.root
        if self.again is not None:
            later.again, self.again = replace(self.again, batches=0), None
        return later

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        again, self.again = self.again, None
        if again is not None:
            return self._go_on(again)
        self._began = (take(self.original), self.keeps_workers)
        rest = self.ends_early()
        run = self.tracker.start(None if rest else self._known_length(), self)
        run.by_sample = self._has_rows_of_samples()
        self.last_run = run
        if self._cutter is None:
            items = iter(self.original)
            return Batches(self, run, self._look_ahead(items, run) if rest or self._must_look_ahead() else items)
        pairs = self._cutter.open()
        return SharedBatches(self, run, self._look_ahead(pairs, run) if self._must_look_ahead() else pairs)

    def _go_on(self, again: Position) -> Batches:
        """The rest of a pass that was interrupted, with the streams as they were then."""
        if again.start is not None:
            put(self.original, again.start)
        self._began = (again.start or take(self.original), again.kept_workers)
        self.last_run = run = self.tracker.start(self._known_length(), self)
        run.count = run.begun = again.batches
        cut = self._cutter or cutter(self.original, self.world, self.collate, self.skip, self.dispatch)
        if getattr(self.original, "persistent_workers", False):
            self._cutter = cut  # these workers serve later passes, too
        pairs = cut.open(again)
        if again.now is not None:
            put(self.original, again.now)
        if self._must_look_ahead():
            pairs = self._look_ahead(pairs, run)
        return SharedBatches(self, run, pairs) if self.world.size > 1 else Batches(self, run, (batch for _, batch in pairs))

    def position(self) -> Position | None:
        """Where the pass in progress has come to; None where there is none."""
        run = self.last_run
        if run is None or run not in self.tracker.runs or self._began is None:
            return None
        reading = getattr(self._cutter, "reading", None)
        return Position(self.skip + run.count, self._began[0], None, self._began[1], None, reading.known if reading is not None else [])

    @property
    def batches_seen(self) -> int:
        """The number, in its epoch, of the next batch: 0 at the beginning, more where an interrupted epoch goes on."""
        if self.again is not None:
            return self.skip + self.again.batches
        run = self.last_run
        return self.skip + (run.count if run is not None and run in self.tracker.runs else 0)

    @property
    def keeps_workers(self) -> bool:
        """Whether workers of an earlier pass serve the next one."""
        loader = getattr(self._cutter, "inner", self.original)
        return bool(getattr(loader, "persistent_workers", False)) and getattr(loader, "_iterator", None) is not None

    def __len__(self) -> int:
        return max(len(self.original) - self.skip, 0)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name not in self.own_attributes and self._cutter is not None:
            self._cutter = cutter(self.original, self.world, self.collate, self.skip, self.dispatch)

    def set_epoch(self, epoch: int) -> None:
        """Tell the epoch to the sampler or data set that wants to know it."""
        for part in (self.original.batch_sampler, self.original.sampler, self.original.dataset):
            if hasattr(part, "set_epoch"):
                part.set_epoch(epoch)

    @property
    def end_of_dataloader(self) -> bool:
        """Whether the last batch has been delivered."""
        return self.last_run is not None and self.last_run.end_of_loader

    @property
    def batches_left(self) -> int | None:
        """Batches still to come in the present pass; None if the length is unknown."""
        run = self.last_run
        return None if run is None or run.length is None else run.length - run.count

    @property
    def remainder(self) -> int:
        """Samples in the last global batch, none of them repeated: nothing has to be cut off; -1."""
        return -1

    @property
    def total_batch_size(self) -> int | None:
        """Samples in a full global batch."""
        return self.original.batch_size or getattr(self.original.batch_sampler, "batch_size", None)

    @property
    def total_dataset_length(self) -> int:
        return len(self.original.dataset)

    @property
    def root(self) -> Any:
        """The loader that `prepare` returned, of which this one may be a later beginning."""
        return self if self._root is None else self._root

    @property
    def reads_original(self) -> bool:
        return self._cutter is None

    def _known_length(self) -> int | None:
        if isinstance(self.original.dataset, IterableDataset):
            return None
        try:
            return len(self)
        except TypeError:
            return None

    def _has_rows_of_samples(self) -> bool:
        """Whether all that is delivered has a row for each sample: what the default collation makes of tensors and lists."""
        return self.original.collate_fn is default_collate and not isinstance(self._cutter, BatchCutter)

    def _look_ahead(self, items: Iterator[Any], run: Run) -> Iterator[Any]:
        """Yield from `items`, one item late, so that the pass knows when it delivers the last one."""
        try:
            held = next(items)
        except StopIteration:
            return
        while True:
            self.begin_fetch(holds=True)
            try:
                item = next(items)
            except StopIteration:
                break
            yield held
            held = item
        run.at_end = True
        yield held

    def _must_look_ahead(self) -> bool:
        return self.last_run.length is None and self.look_ahead()


class Batches:
    """One pass on one process."""

    def __init__(self, loader: PreparedLoader, run: Run, iterator: Iterator[Any]) -> None:
        self.loader = loader
        self.run = run
        self.tracker = run.tracker
        self.iterator = iterator
        self.state = GradientState()
        self.state._add_dataloader(loader)
        self.device = loader.world.device if loader.place else None

    def __iter__(self) -> Batches:
        return self

    def __len__(self) -> int:
        return len(self.loader)

    def __next__(self) -> Any:
        if self.tracker.between_steps is not None:
            self.tracker.before_batch()
        try:
            batch = next(self.iterator)
        except StopIteration:
            self.close(exhausted=True)
            raise
        self.run.count += 1
        return batch if self.device is None else self._on_device(batch)

    def __del__(self) -> None:
        self.close()

    def close(self, exhausted: bool = False) -> None:
        """The pass is over: `exhausted`, or abandoned."""
        if self.run in self.run.tracker.runs:
            self.run.close(exhausted)
            self.state._remove_dataloader(self.loader)

    def _on_device(self, batch: Any) -> Any:
        batch = send_to_device(batch, self.device, non_blocking=self.loader.non_blocking)
        return xla.cut_batch(batch) if self.device.type == "xla" else batch


class SharedBatches(Batches):
    """One pass over this process's rows, which notes the share of each batch."""

    def __next__(self) -> Any:
        if self.tracker.between_steps is not None:
            self.tracker.before_batch()
        try:
            share, batch = next(self.iterator)
        except StopIteration:
            self.close(exhausted=True)
            raise
        self.run.count += 1
        if self.device is not None:
            batch = self._on_device(batch)
        self.run.deliver(share, batch)
        return batch
