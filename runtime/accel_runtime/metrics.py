"""Gathering results for metrics: the rows of the data set, each once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from . import collectives, global_values
from .nested import map_tensors, others

if TYPE_CHECKING:
    from .accelerator import Accelerator


def gather_for_metrics(accelerator: Accelerator, data: Any, use_gather_object: bool) -> Any:
    """All processes' rows of the batch in progress, without borrowed or repeated ones."""
    if _is_one_for_each_sample(data):
        return tuple(gather_for_metrics(accelerator, list(data), use_gather_object))
    objects = use_gather_object or next(others(data), None) is not None
    if objects and not use_gather_object and isinstance(data, (tuple, dict)):
        return _each(accelerator, data)
    if accelerator.exact:
        return global_values.gather_batch(accelerator.data_world, accelerator.tracker, data, objects)
    gathered = collectives.gather_object(accelerator.data_world, data) if objects else collectives.gather(accelerator.data_world, data)
    return _without_repetitions(accelerator, gathered, objects)


def _is_one_for_each_sample(data: Any) -> bool:
    """Whether `data` is a tuple of single objects, such as the file names that the default collate function makes a tuple."""
    return type(data) is tuple and bool(data) and not any(isinstance(entry, (torch.Tensor, tuple, list, dict)) for entry in data)


def _each(accelerator: Accelerator, data: Any) -> Any:
    """The entries one by one, where some are tensors and others lists with one object per sample."""
    if isinstance(data, dict):
        return type(data)((key, gather_for_metrics(accelerator, value, False)) for key, value in data.items())
    entries = (gather_for_metrics(accelerator, value, False) for value in data)
    return type(data)(*entries) if hasattr(data, "_fields") else tuple(entries)


def _without_repetitions(accelerator: Accelerator, gathered: Any, objects: bool) -> Any:
    """A batch may repeat samples, so that all processes have as many: the last one, and the last of each worker of a stream."""
    real = accelerator.gradient_state.remainder
    if accelerator.data_world.size == 1 or real <= 0:
        return gathered
    return gathered[:real] if objects else map_tensors(lambda t: t[:real] if t.ndim else t, gathered)
