"""The Accelerator at hand, for code that has none: model files, loss functions.

`draw`, `global_mean`, `global_sum`, `global_len`, `gather_for_metrics`, `gather_with_grad` and `local_rows` are the methods of the
Accelerator made last. Where there is none, they do what the same line does in a plain script. They may be called within a model's `forward`, which all
processes run on their parts of the same batch, those without samples too.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .accelerator import Accelerator

_live: weakref.ref[Accelerator] | None = None


def set_live(accelerator: Accelerator) -> None:
    """Make `accelerator` the one at hand, for as long as it lives."""
    global _live
    _live = weakref.ref(accelerator)


def live_accelerator() -> Accelerator | None:
    """The Accelerator made last, while it lives."""
    return _live() if _live is not None else None


def draw(factory: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Batch-shaped random numbers: drawn for the global batch on every process, and of them this process's rows.

    `draw(torch.randn, n, 8)` is `torch.randn(n, 8)` on one process, and wherever `n` is not the local batch size.
    """
    accelerator = live_accelerator()
    return factory(*args, **kwargs) if accelerator is None else accelerator.draw(factory, *args, **kwargs)


def global_mean(value: Any, weight: Any = None) -> Any:
    """The mean over the global batch of `value`, a mean over this process's rows (over `weight` things, if given); detached."""
    accelerator = live_accelerator()
    return value if accelerator is None else accelerator.global_mean(value, weight)


def global_sum(value: Any) -> Any:
    """The sum over the global batch of `value`, a sum over this process's rows; detached."""
    accelerator = live_accelerator()
    return value if accelerator is None else accelerator.global_sum(value)


def global_len(value: Any) -> int:
    """The number of rows of which `value` has this process's part; without an Accelerator its own."""
    from .global_values import rows_of

    accelerator = live_accelerator()
    return rows_of(value) if accelerator is None else accelerator.global_len(value)


def gather_for_metrics(input_data: Any, use_gather_object: bool = False) -> Any:
    """The rows of the global batch in the original order, each once; detached."""
    accelerator = live_accelerator()
    return input_data if accelerator is None else accelerator.gather_for_metrics(input_data, use_gather_object)


def gather_with_grad(data: Any) -> Any:
    """The rows of the global batch in the original order, each once, with gradients."""
    accelerator = live_accelerator()
    return data if accelerator is None else accelerator.gather_with_grad(data)


def local_rows(whole: Any) -> Any:
    """This process's rows of what was computed from the whole batch."""
    accelerator = live_accelerator()
    return whole if accelerator is None else accelerator.local_rows(whole)
