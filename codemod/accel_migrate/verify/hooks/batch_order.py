"""Other batches: with their samples in reverse order, which is the control run, or larger ones.

A training step does not depend on the order of the samples in its batch, except by floating-point summation order. What
such a run changes in the weights is therefore the noise floor for a comparison.
"""

from __future__ import annotations

import functools
import sys
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


def enlarge_batches(times: int) -> None:
    """Every loader of the script with batches so many times as large, as several processes take them that each read one."""
    from torch.utils.data import DataLoader

    plain = DataLoader.__init__

    @functools.wraps(plain)
    def init(self: Any, dataset: Any, batch_size: Any = 1, *args: Any, **kwargs: Any) -> None:
        by_library = sys._getframe(1).f_globals.get("__name__", "").startswith(("accelerate.", "accel_runtime."))
        if batch_size is not None and (args[2] if len(args) > 2 else kwargs.get("batch_sampler")) is None and not by_library:
            batch_size *= times
        plain(self, dataset, batch_size, *args, **kwargs)

    DataLoader.__init__ = init  # type: ignore[method-assign]
