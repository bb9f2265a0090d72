"""One pass over a prepared loader, and the batches it has delivered, recognised by the memory of their tensors."""

from __future__ import annotations

import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .nested import leaves

if TYPE_CHECKING:
    from .batches import Share, Tracker

_MANY = 64


class Delivered:
    """A delivered batch: its share, and weak references to its tensors and their memory."""

    __slots__ = ("share", "storages", "tensors")

    def __init__(self, share: Share, batch: Any) -> None:
        self.share = share
        flat = type(batch) in (list, tuple) and all(map(torch.is_tensor, batch))
        tensors = [leaf for leaf in (batch if flat else leaves(batch)) if has_storage(leaf)]
        self.tensors = [weakref.ref(leaf) for leaf in tensors]
        self.storages = [StorageWeakRef(leaf.untyped_storage()) for leaf in tensors]

    def alive(self) -> bool:
        for storage in self.storages:
            if not storage.expired():
                return True
        return not self.storages

    def holds(self, value: Any) -> bool:
        """Whether `value` is one of the batch's tensors itself, with one row per sample."""
        return any(known() is value for known in self.tensors) and len(value) == self.share.local


class Run:
    """One pass over a prepared loader."""

    def __init__(self, tracker: Tracker, length: int | None, source: Any = None) -> None:
        self.tracker = tracker
        self.length = length
        self.source = source
        self.count = 0
        self.at_end = False
        self.exhausted = False
        self.totals: list[int] = []
        self.batches: deque[Delivered] = deque()
        self.started_at = tracker.fetches
        self.fetched_at = -1
        self.prefetches = False
        self._used = False

    @property
    def end_of_loader(self) -> bool:
        return self.at_end or (self.length is not None and self.count >= self.length)

    @property
    def share(self) -> Share | None:
        return self.batches[-1].share if self.batches else None

    def deliver(self, share: Share, batch: Any) -> None:
        """Note a batch which the loader hands out."""
        self.tracker.fetches += 1
        self.fetched_at = self.tracker.fetches
        self.prune()
        self.totals.append(share.total)
        self.batches.append(Delivered(share, batch))

    def use(self) -> None:
        """Note that a value is computed; a pass that holds several unused batches by then is fetched from ahead."""
        self.prune()
        if not self._used:
            self._used = True
            self.prefetches = len(self.batches) > 1

    def prune(self) -> None:
        batches = self.batches
        while len(batches) > 1 and not batches[0].alive():
            batches.popleft()
        if len(batches) > _MANY and len(batches) & (len(batches) - 1) == 0:
            latest = batches.pop()
            self.batches = deque([batch for batch in batches if batch.alive()] + [latest])

    def in_use(self) -> bool:
        """Whether any of the batches is still in memory."""
        return any(batch.storages and batch.alive() for batch in self.batches)

    def held(self) -> list[Delivered]:
        """After the pass: the batches that the program has kept on purpose, and not just in the variable of its loop."""
        alive = [batch for batch in self.batches if batch.storages and batch.alive()]
        return alive if not self.exhausted or len(alive) > 1 or self.count == 1 else []

    def close(self, exhausted: bool = False) -> None:
        """The pass is over: `exhausted`, or abandoned."""
        self.exhausted = exhausted
        self.tracker.close(self)


def has_storage(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided and leaf.numel() > 0
