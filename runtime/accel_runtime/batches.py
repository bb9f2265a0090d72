"""Which part of a global batch this process holds, and which batch produced a given loss.

A global batch of `total` samples is cut contiguously. A process without samples borrows the first one at weight zero, so
that it joins every collective. The share of a batch belongs to the losses computed from that batch: where several live
batches have different shares, the autograd graph of the loss tells which of them it was computed from.
"""

from __future__ import annotations

import itertools
import warnings
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .nested import leaves

_MANY_ENTRIES = 64


def cut(total: int, size: int, rank: int) -> tuple[int, int]:
    """Rows `start:stop` of process `rank` in a batch of `total` samples: contiguous, the first processes get one more."""
    each, more = divmod(total, size)
    start = rank * each + min(rank, more)
    return start, start + each + (rank < more)


@dataclass(frozen=True)
class Share:
    """This process's rows `start:stop` of a global batch of `total` samples; `borrowed` rows count zero."""

    start: int
    stop: int
    total: int
    size: int
    borrowed: bool = False

    @classmethod
    def of(cls, total: int, size: int, rank: int) -> Share:
        start, stop = cut(total, size, rank)
        if start == stop:
            return cls(0, min(1, total), total, size, borrowed=True)
        return cls(start, stop, total, size)

    @property
    def local(self) -> int:
        return self.stop - self.start

    @property
    def scale(self) -> float:
        """What a mean over the local rows counts in the mean over processes: 1.0 where all hold the same number."""
        return 0.0 if self.borrowed else self.local * self.size / self.total

    @property
    def key(self) -> int:
        """Equal on all processes; batches with equal keys have equal scales on every process."""
        return 0 if self.total % self.size == 0 else self.total


class _Entry:
    """A delivered batch: its share and weak references to the memory of its tensors."""

    __slots__ = ("share", "storages")

    def __init__(self, share: Share, batch: Any) -> None:
        self.share = share
        flat = type(batch) in (list, tuple) and all(map(torch.is_tensor, batch))
        self.storages = [StorageWeakRef(leaf.untyped_storage()) for leaf in (batch if flat else leaves(batch)) if _has_storage(leaf)]

    def alive(self) -> bool:
        for storage in self.storages:
            if not storage.expired():
                return True
        return not self.storages


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
        self.entries: deque[_Entry] = deque()
        self.started_at = tracker.fetches
        self.fetched_at = -1
        self.prefetches = False
        self._used = False

    @property
    def end_of_loader(self) -> bool:
        return self.at_end or (self.length is not None and self.count >= self.length)

    @property
    def share(self) -> Share | None:
        return self.entries[-1].share if self.entries else None

    def deliver(self, share: Share, batch: Any) -> None:
        """Note a batch which the loader hands out."""
        self.tracker.fetches += 1
        self.fetched_at = self.tracker.fetches
        self.prune()
        self.totals.append(share.total)
        self.entries.append(_Entry(share, batch))

    def use(self) -> None:
        """Note that a value is computed; a pass that holds several unused batches by then is fetched from ahead."""
        self.prune()
        if not self._used:
            self._used = True
            self.prefetches = len(self.entries) > 1

    def prune(self) -> None:
        entries = self.entries
        while len(entries) > 1 and not entries[0].alive():
            entries.popleft()
        if len(entries) > _MANY_ENTRIES and len(entries) & (len(entries) - 1) == 0:
            latest = entries.pop()
            self.entries = deque([entry for entry in entries if entry.alive()] + [latest])

    def close(self, exhausted: bool = False) -> None:
        """The pass is over: `exhausted`, or abandoned."""
        self.exhausted = exhausted
        self.tracker.close(self)


class Tracker:
    """The passes in progress, innermost last, and what the latest backward was computed from."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.ended: Run | None = None
        self.fetches = 0
        self.at_zero = False
        self._last_backward: tuple[int, Share] | None = None

    def start(self, length: int | None, source: Any = None) -> Run:
        run = Run(self, length, source)
        self.runs.append(run)
        return run

    def close(self, run: Run) -> None:
        if run in self.runs:
            self.runs.remove(run)
            self.ended = run

    @property
    def run(self) -> Run | None:
        """The innermost pass in progress, or the last one that ended."""
        return self.runs[-1] if self.runs else self.ended

    def share_of(self, value: torch.Tensor | None = None) -> Share | None:
        """The share of the batch from which `value` was computed; None where it belongs to none: all processes count alike.

        Raises ValueError, on all processes, where batches with different shares are in play and `value` does not tell.
        """
        remembered = getattr(value, "_accel_share", None)
        if remembered is not None:
            return remembered
        run = self._innermost()
        if run is None or self._is_running_value(run, value):
            return None
        run.use()
        if len(self.runs) == 1 == len(run.entries):
            return run.entries[0].share
        entries = self._live()
        if not entries or _uniform(entries):
            return self._innermost_share()
        origins = _origins(value, entries)
        if origins and _uniform(origins):
            return origins[-1].share
        if not origins and self._only_nested():
            return self._innermost_share()
        if not origins and self._last_backward is not None and self._last_backward[0] == self.fetches:
            return self._last_backward[1]
        raise ValueError(
            f"Batches of {' and '.join(str(entry.share.total) for entry in entries)} samples are in use at the same time and this "
            "value cannot be assigned to one of them. Pass weight= (the number of samples, on this process, over which it is a mean)."
        )

    def borrowed(self, value: torch.Tensor | None = None) -> bool:
        """Whether this process only borrowed the sample from which `value` was computed."""
        run = self._innermost()
        if run is None or self._is_running_value(run, value):
            return False
        entries = self._live()
        flags = {entry.share.borrowed for entry in entries}
        if len(flags) > 1:
            share = self.share_of(value)
            return share is not None and share.borrowed
        return flags == {True}

    def borrows(self, rows: int | None) -> bool:
        """Whether results with `rows` rows (None: without rows) belong to a batch of which this process only borrowed a sample."""
        share = self.sized(rows) if rows is not None else None
        if share is not None:
            return share.borrowed
        share = self._innermost_share()
        return share is not None and share.borrowed and (rows is None or rows % share.local == 0)

    def sized(self, rows: int) -> Share | None:
        """The share of a live batch with `rows` local rows: the innermost pass's latest one, where several have."""
        run = self._innermost()
        if run is None:
            return None
        if run.share is not None and run.share.local == rows:
            return run.share
        return next((entry.share for entry in reversed(self._live()) if entry.share.local == rows), None)

    def remember_backward(self, loss: torch.Tensor, share: Share) -> None:
        """Keep `share` for later questions about `loss`, whatever is fetched or evaluated in between."""
        loss._accel_share = share  # type: ignore[attr-defined]
        self._last_backward = (self.fetches, share)

    def _is_running_value(self, run: Run, value: torch.Tensor | None) -> bool:
        """Whether `value` was kept over a pass that is over, so that the last batch tells nothing about it."""
        if not run.exhausted or (value is not None and value.grad_fn is not None):
            return False
        if any(entry.share.total < entry.share.size for entry in run.entries):
            warnings.warn(
                "The last batch had fewer samples than there are processes, and a value kept over the whole loop counts its samples "
                "more than once: reduce inside the loop (gather_for_metrics, global_mean, global_sum).",
                stacklevel=5,
            )
        return True

    def _innermost(self) -> Run | None:
        for run in reversed(self.runs):
            if run.entries:
                return run
        return self.ended

    def _innermost_share(self) -> Share | None:
        run = self._innermost()
        return run.share if run is not None else None

    def _live(self) -> list[_Entry]:
        entries: list[_Entry] = []
        for run in self.runs or ([self.ended] if self.ended is not None else []):
            run.prune()
            entries.extend(entry for entry in run.entries if entry is run.entries[-1] or entry.alive())
        return entries

    def _only_nested(self) -> bool:
        """True where each pass began inside the one around it and none was fetched from ahead of its use."""
        runs = [run for run in self.runs if run.entries] or ([self.ended] if self.ended is not None else [])
        nested = all(outer.fetched_at <= inner.started_at for outer, inner in itertools.pairwise(runs))
        return nested and not runs[-1].prefetches


def _uniform(entries: list[_Entry]) -> bool:
    key = entries[0].share.key
    return all(entry.share.key == key for entry in entries)


def _has_storage(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided and leaf.numel() > 0


def _origins(value: torch.Tensor | None, entries: list[_Entry]) -> list[_Entry]:
    if value is None:
        return []
    seen = {tensor.untyped_storage()._cdata for tensor in _tensors_behind(value) if _has_storage(tensor)}
    return [entry for entry in entries if any(storage.cdata in seen for storage in entry.storages)]


def _tensors_behind(value: torch.Tensor) -> Iterator[torch.Tensor]:
    """`value` and every tensor which its autograd graph saved for the backward."""
    yield value
    pending, visited = [value.grad_fn], set()
    while pending:
        node = pending.pop()
        if node is None or node in visited:
            continue
        visited.add(node)
        pending.extend(following for following, _ in node.next_functions)
        yield from _saved_tensors(node)


def _saved_tensors(node: Any) -> Iterator[torch.Tensor]:
    for name in dir(node):
        if not (name.startswith("_saved_") or name in ("saved_tensors", "variable")):
            continue
        try:
            saved = getattr(node, name)
        except RuntimeError:  # freed by an earlier backward
            continue
        for tensor in saved if isinstance(saved, (tuple, list)) else (saved,):
            if isinstance(tensor, torch.Tensor):
                yield tensor
