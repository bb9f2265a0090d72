"""Which part of a global batch this process holds, and which batch produced a given loss.

A global batch of `total` samples is cut contiguously. A process without samples borrows the first one at weight zero, so
that it joins every collective. The share of a batch belongs to the losses computed from that batch: where several live
batches have different shares, the autograd graph of the loss tells which of them it was computed from, and inside a model's
methods the batch they were called with. A loss that a backward has seen keeps its share, whatever is fetched afterwards.
"""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .origins import called_with, hints_at, origins
from .passes import Delivered, Run
from .remembered import Remembered


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
    @functools.lru_cache(maxsize=256)
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


class Tracker:
    """The passes in progress, innermost last, and what the latest backward was computed from.

    `anywhere` tells whether a flag is raised on any process; it is asked only where batches with different shares are in use.

    Attributes:
        trained: whether a backward has run since the last batch.
        between_steps: called when a batch is asked for after a backward.
    """

    def __init__(self, anywhere: Callable[[bool], bool] = bool) -> None:
        self.anywhere = anywhere
        self.runs: list[Run] = []
        self.ended: Run | None = None
        self.held: list[Run] = []
        self.fetches = 0
        self.at_zero = False
        self.trained = False
        self.between_steps: Callable[[], None] | None = None
        self._remembered = Remembered()
        self._last_backward: tuple[int, Any] | None = None

    def start(self, length: int | None, source: Any = None) -> Run:
        run = Run(self, length, source)
        self.runs.append(run)
        return run

    def before_batch(self) -> None:
        """A loop asks for its next batch: call `between_steps`, if a backward has run since the last time."""
        if self.trained and self.between_steps is not None:
            self.trained = False
            self.between_steps()

    def close(self, run: Run) -> None:
        if run in self.runs:
            self.runs.remove(run)
            self.ended = run
            self.held.append(run)

    @property
    def run(self) -> Run | None:
        """The innermost pass in progress, or the last one that ended."""
        return self.runs[-1] if self.runs else self.ended

    def share_of(self, value: torch.Tensor | None = None) -> Any:
        """The share of the batch from which `value` was computed; None where it belongs to none: all processes count alike.

        Raises ValueError, on all processes, where batches with different shares are in play and `value` does not tell.
        """
        if value is not None and (remembered := self._remembered.get(value)) is not None:
            return remembered
        run = self._innermost()
        if run is None:
            return None
        if self._outlives(run, value):
            return self._share_after(run)
        run.use()
        if len(self.runs) == 1 == len(run.batches) and not self._held():
            return run.batches[0].share
        live, held = self._live(), self._held()
        if not live or _uniform(live + held):
            return self._innermost_share()
        found = origins(value, live + held)
        if found:
            self._refuse_mixtures(value, found)
            return found[-1].share
        found = called_with(live + held)
        return found[-1].share if found and _uniform(found) else self._share_without_origin(live)

    def _refuse_mixtures(self, value: torch.Tensor | None, found: list[Delivered]) -> None:
        """Raise where `value` has more than one share: several batches `found` in its graph, or signs of a transformed one."""
        if not _uniform(found):
            raise _undecided(found)
        if self._only_nested():
            return
        others = [run.batches[-1] for run in self.runs if run.batches and not any(batch in run.batches for batch in found)]
        others = [batch for batch in others if batch.share.key != found[0].share.key]
        if others and self.anywhere(any(hints_at(value, batch, found) for batch in others)):
            raise _undecided([*found, *others])

    def _share_without_origin(self, live: list[Delivered]) -> Any:
        if _uniform(live) or self._only_nested():
            return self._innermost_share()
        if self._last_backward is not None and self._last_backward[0] == self.fetches:
            return self._last_backward[1]
        raise _undecided(live)

    def borrowed(self, value: torch.Tensor | None = None) -> bool:
        """Whether this process only borrowed the sample from which `value` was computed."""
        run = self._innermost()
        if run is None:
            return False
        if self._outlives(run, value):
            share = self._share_after(run)
            return share is not None and share.borrowed
        live = self._live() + (self._held() if value is not None and value.grad_fn is not None else [])
        small = {batch.share.total < batch.share.size for batch in live}
        if small == {True} and _uniform(live):
            return live[-1].share.borrowed
        share = self.share_of(value) if True in small else None
        return isinstance(share, Share) and share.borrowed

    def counts_nothing(self, rows: torch.Tensor) -> bool:
        """Whether `rows`, on their way through a model, belong to a batch of which this process only borrowed a sample."""
        run = self._innermost()
        if run is None:
            return False
        if not self._outlives(run, rows):
            return self.borrowed(rows)
        found = called_with(self._live() + self._held())
        return bool(found) and _uniform(found) and found[-1].share.borrowed

    def borrows(self, rows: int | None, value: torch.Tensor | None = None) -> bool:
        """Whether results with `rows` rows (None: without rows) belong to a batch of which this process only borrowed a sample."""
        share = self.sized(rows, value) if rows is not None else None
        if share is not None:
            return share.borrowed
        share = self._innermost_share()
        return share is not None and share.borrowed and (rows is None or rows % share.local == 0)

    def sized(self, rows: int, value: torch.Tensor | None = None) -> Share | None:
        """The share of a live batch with `rows` local rows: the one `value` was computed from, the one a model was called with,
        the innermost pass's latest one; else of one that the program has kept from a pass that is over."""
        latest = self.latest(value)
        if latest is None or latest.local == rows:
            return latest
        return next((batch.share for batch in reversed(self._held() + self._live()) if batch.share.local == rows), None)

    def latest(self, value: torch.Tensor | None = None) -> Share | None:
        """The share of the live batch that `value` was computed from or a model was called with, else of the latest one."""
        live = self._held() + self._live()
        known = [] if _uniform(live) else origins(value, live) or called_with(live)
        return known[-1].share if known else self._innermost_share()

    def holding(self, value: Any) -> Share | None:
        """The share of the batch of which `value` is one of the tensors or lists, or a view, with one row per sample."""
        return next((batch.share for batch in reversed(self._live() + self._held()) if batch.holds(value)), None)

    @property
    def by_sample(self) -> bool:
        """Whether the batches in use have a row for each sample on every process; the answer is the same on all of them."""
        return all(run.by_sample for run in self.runs or ([self.ended] if self.ended is not None else []))

    def delivered(self) -> list[Delivered]:
        """The batches that values may be computed from: of the passes in progress, and kept ones."""
        return self._live() + self._held()

    def remember_backward(self, loss: torch.Tensor, counted: Any) -> None:
        """Keep the share or weight of `loss` for later questions, whatever is fetched or evaluated in between."""
        self._remembered.put(loss, counted)
        self._last_backward = (self.fetches, counted)

    def _outlives(self, run: Run, value: torch.Tensor | None) -> bool:
        """Whether `value` may have been kept over a pass that is over, so that the last batch tells nothing about it."""
        return run.exhausted and (value is None or value.grad_fn is None)

    def _share_after(self, run: Run) -> Share | None:
        """The share of the batch that a model was called with after the pass; else None, for a value kept over the loop."""
        found = called_with(self._live() + self._held())
        if found and _uniform(found):
            return found[-1].share
        if any(batch.share.total < batch.share.size for batch in run.batches):
            warnings.warn(
                "The last batch had fewer samples than there are processes, and a value kept over the whole loop counts its samples "
                "more than once: reduce inside the loop (gather_for_metrics, global_mean, global_sum).",
                stacklevel=6,
            )
        return None

    def _innermost(self) -> Run | None:
        runs = self.runs
        if runs and runs[-1].batches:
            return runs[-1]
        for run in reversed(runs):
            if run.batches:
                return run
        return self.ended if self.ended is not None and self.ended.batches else None

    def _innermost_share(self) -> Share | None:
        run = self._innermost()
        return run.share if run is not None else None

    def _live(self) -> list[Delivered]:
        live: list[Delivered] = []
        for run in self.runs or ([self.ended] if self.ended is not None else []):
            run.prune()
            live.extend(batch for batch in run.batches if batch is run.batches[-1] or batch.alive())
        return live

    def _held(self) -> list[Delivered]:
        if not self.held:
            return []
        self.held = [run for run in self.held if run.in_use()]
        return [batch for run in self.held for batch in run.held()]

    def _only_nested(self) -> bool:
        """True where each pass began inside the one around it and none was fetched from ahead of its use."""
        runs = [run for run in self.runs if run.batches] or ([self.ended] if self.ended is not None else [])
        nested = all(outer.fetched_at <= inner.started_at for outer, inner in itertools.pairwise(runs))
        return nested and not runs[-1].prefetches


def _undecided(batches: list[Delivered]) -> ValueError:
    totals = " and ".join(map(str, dict.fromkeys(batch.share.total for batch in batches)))
    return ValueError(
        f"Batches of {totals} samples are in use at the same time and this value cannot be assigned to one of them. "
        "Pass weight= (the number of samples, on this process, over which it is a mean)."
    )


def _uniform(batches: list[Delivered]) -> bool:
    return len({batch.share.key for batch in batches}) <= 1
