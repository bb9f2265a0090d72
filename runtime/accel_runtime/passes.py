"""One pass over a prepared loader, and the batches it has delivered, recognised by the memory of their tensors."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from .nested import leaves

if TYPE_CHECKING:
    from .batches import Share, Tracker

_MANY = 64


class Delivered:
    """A delivered batch: its share, and how its tensors and their memory are recognised without keeping them.

    Attributes:
        share: this process's part.
        storages: the addresses of its tensors' storages, which are not given to others while this object lives.
        strides: from row to row of each of these tensors.
        lists: its lists, such as one text per sample.
        by_sample: whether each of these has a row for each sample on every process. What a `collate_fn` of the script joins
            may have as many rows as samples on one process by chance, and other numbers elsewhere.
    """

    __slots__ = ("by_sample", "lists", "share", "storages", "strides")

    _expired = torch.UntypedStorage._expired
    _free = torch.UntypedStorage._free_weak_ref

    def __init__(self, share: Share, batch: Any, by_sample: bool = True) -> None:
        self.share = share
        self.by_sample = by_sample
        self.storages: list[int] = []
        self.strides: list[int] = []
        self.lists: list[Any] = []
        for part in batch if type(batch) in (list, tuple) else batch.values() if isinstance(batch, Mapping) else (batch,):
            if type(part) is torch.Tensor:
                self._note(part)
            else:
                self._note_all(part)

    def _note_all(self, part: Any) -> None:
        if type(part) in (list, tuple):
            self.lists.append(part)
        for leaf in leaves(part):
            self._note(leaf)

    def _note(self, leaf: torch.Tensor) -> None:
        if leaf.layout is torch.strided and leaf.numel():
            strides = leaf.stride()
            self.strides.append(strides[0] if strides else 0)
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
        """Whether `value` is one of the batch's lists or tensors, or a view of one, with a row for each sample.

        Raises:
            ValueError: a view of some rows, while other processes may see all of theirs in it.
        """
        if not self.by_sample:
            return False
        rows, local = len(value), self.share.local
        if not isinstance(value, torch.Tensor):
            return rows == local and any(value is known for known in self.lists)
        if rows > local or not self._begins_rows(value):
            return False
        if max(self.share.total // self.share.size, 1) <= rows < local:
            raise ValueError(
                f"global_len was given {rows} of the {local} rows that this process has of a batch: "
                "other processes may have all of theirs; give it a copy, as in x[:k].clone()"
            )
        return rows == local

    def _begins_rows(self, value: torch.Tensor) -> bool:
        if value.layout is not torch.strided or not value.numel():
            return False
        storage = value.untyped_storage()._cdata
        return any(storage == known and value.stride(0) == stride for known, stride in zip(self.storages, self.strides, strict=True))


class Run:
    """One pass over a prepared loader.

    Attributes:
        count: batches delivered, those before an interruption included; `begun`: these.
        lead: batches delivered before the one of the first backward; None before that.
    """

    def __init__(self, tracker: Tracker, length: int | None, source: Any = None) -> None:
        self.tracker = tracker
        self.length = length
        self._source = (lambda: source) if source is None or isinstance(source, str) else weakref.ref(source)
        self.by_sample = True
        self.count = self.begun = 0
        self.lead: int | None = None
        self.at_end = False
        self.exhausted = False
        self.totals: list[int] = []
        self.batches: deque[Delivered] = deque()
        self.started_at = tracker.fetches
        self.fetched_at = -1
        self.prefetches = False
        self._used = False

    @property
    def source(self) -> Any:
        """The loader, while it lives, or what else it is a pass over."""
        return self._source()

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
        self.batches.append(Delivered(share, batch, self.by_sample))

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
