"""Schedulers in place: how often one call of `step` ticks.

Exact mode: once, as written, except inside an open accumulation window. Per-process mode: Accelerate's meaning, one tick
per process and optimizer step, since scripts written for it multiply their lengths by the number of processes. A scheduler
on a metric ticks once per call in every mode, with the same metric on all processes.

`state_dict` of a scheduler holds whatever stands in its `__dict__`; so the class's `step` is replaced, once, and asks
whether the scheduler was registered.
"""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau

from .collectives import all_reduce

if TYPE_CHECKING:
    from .accelerator import Accelerator

_registered: weakref.WeakKeyDictionary[Any, Accelerator] = weakref.WeakKeyDictionary()


def install(accelerator: Accelerator, scheduler: Any) -> None:
    """Let the processes and accumulation windows of `accelerator` decide when `scheduler` ticks."""
    _patch_step(next(cls for cls in type(scheduler).__mro__ if "step" in vars(cls)))
    _registered[scheduler] = accelerator


def look_wrapped(scheduler: Any) -> None:
    """Answer `scheduler.scheduler`, by which scripts written for Accelerate reach into its wrapper, with the scheduler."""
    cls = type(scheduler)
    if not hasattr(cls, "scheduler") and "scheduler" not in vars(scheduler):
        cls.scheduler = property(lambda self: self)


@functools.cache
def _patch_step(cls: type) -> None:
    plain = cls.step  # type: ignore[attr-defined]

    @functools.wraps(plain)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        accelerator = _registered.pop(self, None)
        if accelerator is None:
            return plain(self, *args, **kwargs)
        try:  # a step that calls itself or its base class's ticks once
            return _tick(accelerator, self, functools.partial(plain, self), args, kwargs)
        finally:
            _registered[self] = accelerator

    cls.step = step  # type: ignore[attr-defined]


def _tick(accelerator: Accelerator, scheduler: Any, plain: Any, args: Any, kwargs: Any) -> Any:
    if isinstance(scheduler, ReduceLROnPlateau):
        return _metric_step(accelerator, plain, *args, **kwargs) if accelerator.accumulation.may_step() else None
    if accelerator.exact:
        return plain(*args, **kwargs) if accelerator.accumulation.may_step() else None
    return _per_process_step(accelerator, scheduler, plain, args, kwargs)


def _metric_step(accelerator: Accelerator, plain: Any, metrics: Any, *args: Any, **kwargs: Any) -> Any:
    if accelerator.loss_world.size > 1:
        value = torch.as_tensor(metrics).detach().cpu().double()
        metrics = float(all_reduce(accelerator.loss_world, value)) / accelerator.loss_world.size
    return plain(metrics, *args, **kwargs)


def _per_process_step(accelerator: Accelerator, scheduler: Any, plain: Any, args: Any, kwargs: Any) -> Any:
    if not accelerator.step_scheduler_with_optimizer:
        return plain(*args, **kwargs)
    if not accelerator.accumulation.may_step():
        if accelerator.adjust_scheduler:
            scheduler._step_count += 1
        return None
    if accelerator.optimizer_step_was_skipped:
        return None
    for _ in range(1 if getattr(scheduler, "ticks_once", False) else accelerator.data_world.size):
        # OneCycleLR and kin refuse to go beyond their last step.
        if getattr(scheduler, "total_steps", None) is None or scheduler._step_count <= scheduler.total_steps:
            plain(*args, **kwargs)
    return None
