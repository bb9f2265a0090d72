"""The control run: every batch of every loader with its samples in reverse order.

A training step does not depend on the order of the samples in its batch, except by floating-point summation order. What
such a run changes in the weights is therefore the noise floor for a comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def reverse_samples_in_batches() -> None:
    """Patch torch in this process. Samples are still *read* in the original order, so that random transforms draw the same."""
    from torch.utils.data._utils.fetch import _BaseDatasetFetcher

    original_init = _BaseDatasetFetcher.__init__

    def init(self: Any, dataset: Any, auto_collation: bool, collate_fn: Callable[[Any], Any], drop_last: bool) -> None:
        collate = _reversing(collate_fn) if auto_collation else collate_fn
        original_init(self, dataset, auto_collation, collate, drop_last)

    _BaseDatasetFetcher.__init__ = init


def _reversing(collate_fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda samples: collate_fn([samples[i] for i in reversed(range(len(samples)))])
