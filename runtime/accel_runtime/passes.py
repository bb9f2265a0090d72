"""One pass over a prepared loader, and the batches it has delivered, recognised by the memory of their tensors."""

from __future__ import annotations

import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

import torch

from .nested import leaves

if TYPE_CHECKING:
    from .batches import Share, Tracker

_MANY = 64


class Delivered:
    """A delivered batch: its share, and weak references to its tensors and their memory.

    Attributes:
        share: this process's part.
        tensors: references to its tensors.
        storages: the addresses of their storages, which are not given to others while this object lives.
    """

    __slots__ = ("share", "storages", "tensors")

    _expired = torch.UntypedStorage._expired
    _free = torch.UntypedStorage._free_weak_ref

    def __init__(self, share: Share, batch: Any) -> None:
        self.share = share
        self.tensors: list[weakref.ref[torch.Tensor]] = []
        self.storages: list[int] = []
        if type(batch) in (list, tuple):
            for part in batch:
                self._note(part) if type(part) is torch.Tensor else self._note_all(part)
        else:
            self._note_all(batch)

    def _note_all(self, part: Any) -> None:
        for leaf in leaves(part):
            self._note(leaf)

    def _note(self, leaf: torch.Tensor) -> None:
        if leaf.layout is torch.strided and leaf.numel():
            self.tensors.append(weakref.ref(leaf))
            self.storages.append(leaf.untyped_storage()._weak_ref())

    def __del__(self) -> None:
        for storage in self.storages:
            self._free(storage)

    def alive(self) -> bool:
        """Whether any of its memory is still in use."""
        expired = self._expired
        for storage in self.storages:
            if not expired(storage):
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
