"""Which samples the loaders read, batch by batch."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from accel_migrate.verify.hooks import shuffling, state

if TYPE_CHECKING:
    from accel_migrate.verify.hooks.tracing import Recorder

_passes: list[Any] = []
"""Iterators over loaders, the one that was advanced last at the end."""


def trace(recorder: Recorder) -> None:
    """Hook where iterators over loaders take the next indices; streams have none."""
    from torch.utils.data import IterableDataset
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    _passes.clear()
    numbers: list[Any] = []
    counter = itertools.count()
    plain = _BaseDataLoaderIter._next_index

    def next_index(self: Any) -> Any:
        if isinstance(self._dataset, IterableDataset):
            return plain(self)
        if getattr(self, "_verify_sampler", None) is not self._sampler_iter:  # a new pass, or workers that were kept for one
            self._verify_sampler, self._verify_pass = self._sampler_iter, next(counter)
            self._verify_data = _number(self._dataset, numbers)
            self._verify_trains, self._verify_read = False, 0
            self._verify_part = _part(self._dataset)
            if self._verify_part is not None:
                recorder.write(data=self._verify_data, made_of=hash(self._verify_part))
            if self._num_workers:
                state.note_use("augmentation")  # what workers draw is not seen from here
        _move_to_end(self)
        try:
            index = plain(self)
        except StopIteration:
            recorder.write(pass_end=self._verify_pass, trains=self._verify_trains)
            raise
        rows = _rows(index)
        if self._verify_part is not None:
            rows = [self._verify_part[row] for row in rows]
        self._verify_read += 1
        recorder.write(**{"batch": True, "data": self._verify_data, "pass": self._verify_pass, "rows": rows})
        return index

    _BaseDataLoaderIter._next_index = next_index
    _note.recorder = recorder  # type: ignore[attr-defined]


def note_training() -> None:
    """A backward: the pass that was advanced last is one of training."""
    if _passes and not _passes[-1]._verify_trains:
        _passes[-1]._verify_trains = True
        _note(_passes[-1])


def _note(iterator: Any) -> None:
    skipped = iterator._verify_read - 1 if _draws_its_order(iterator) else 0
    _note.recorder.write(trains_in=iterator._verify_pass, skipped=skipped)  # type: ignore[attr-defined]


def _draws_its_order(iterator: Any) -> bool:
    sampler, seen = getattr(iterator, "_index_sampler", None), 0
    while sampler is not None and not shuffling.draws_its_order(sampler) and seen < 5:
        sampler, seen = getattr(sampler, "sampler", None) or getattr(sampler, "batch_sampler", None), seen + 1
    return sampler is not None and shuffling.draws_its_order(sampler)


def _part(dataset: Any) -> tuple[int, ...] | None:
    """Which samples of the data set that it was split from a `Subset` has; None for others."""
    from torch.utils.data import Subset

    if type(dataset) is not Subset:
        return None
    below = _part(dataset.dataset)
    try:
        return tuple(int(i) if below is None else below[int(i)] for i in dataset.indices)
    except (TypeError, ValueError, IndexError):  # keys of other kinds
        return None


def _move_to_end(iterator: Any) -> None:
    if not _passes or _passes[-1] is not iterator:
        _passes[:] = [known for known in _passes[-7:] if known is not iterator] + [iterator]


def _number(dataset: Any, numbers: list[Any]) -> int:
    """Data sets by the order of the first passes over them."""
    for number, known in enumerate(numbers):
        if known is dataset:
            return number
    numbers.append(dataset)
    return len(numbers) - 1


def _rows(index: Any) -> list[Any]:
    """As they are now: a sampler may go on with the same list."""
    rows = index.tolist() if hasattr(index, "tolist") else index
    return list(rows) if isinstance(rows, (list, tuple)) else [rows]
