"""Workers that have lived through the beginning of a pass: what they draw afterwards is what they would have drawn.

Where a pass is gone through again, each worker is handed the batches that were delivered before. It reads and collates the first
of them, to find out whether that draws from its random streams, and the others only if it does. The results are dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils.data import Dataset, default_collate

from .. import fingerprints
from .reading import _never_draws, _own_generators, _state_of


class Passed(list[Any]):
    """The indices of a batch that was delivered before."""


class _Again:
    """What was read of such a batch: samples, or None if reading is not needed."""

    def __init__(self, samples: list[Any] | None) -> None:
        self.samples = samples


class Replayed(Dataset[Any]):
    """A data set that knows batches which were delivered before; its attributes are those of `dataset`."""

    def __init__(self, dataset: Any, collate_fn: Callable[[Any], Any]) -> None:
        vars(self).update(_dataset=dataset, _collate=collate_fn, _draws=None, _before=None)

    def __getitem__(self, index: Any) -> Any:
        return self._dataset[index]

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitems__(self, indices: list[Any]) -> Any:
        if not isinstance(indices, Passed):
            return self._read(indices)
        if self._draws is False:
            return _Again(None)
        vars(self)["_before"] = self._streams()
        return _Again(self._read(indices))

    def collate(self, samples: Any) -> Any:
        """Collate as ever; nothing remains of a batch that was delivered before."""
        if not isinstance(samples, _Again):
            return self._collate(samples)
        if samples.samples is not None:
            self._collate(samples.samples)
            vars(self)["_draws"] = bool(self._draws) or self._streams() != self._before
        return None

    def _read(self, indices: list[Any]) -> list[Any]:
        several = getattr(self._dataset, "__getitems__", None)
        return several(indices) if several else [self._dataset[index] for index in indices]

    def _streams(self) -> tuple[Any, ...]:
        return (*fingerprints.of_main_streams(), *map(_state_of, _own_generators(self._dataset)))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_dataset" not in vars(self):
            raise AttributeError(name)
        return getattr(self._dataset, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._dataset, name, value)


def may_draw_in_workers(loader: Any) -> bool:
    """Whether workers may draw random numbers as they read and collate."""
    return loader.num_workers > 0 and not (_never_draws(loader.dataset) and loader.collate_fn is default_collate)
