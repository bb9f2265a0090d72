"""What stands in a script for the optimizer and scheduler that a DeepSpeed configuration describes: `prepare` makes them, as torch's own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.optim.lr_scheduler import LRScheduler

from .deepspeed_plugin import DeepSpeedPlugin

_OPTIMIZERS = {"adam": "AdamW", "adamw": "AdamW", "sgd": "SGD", "adagrad": "Adagrad"}
"""DeepSpeed's names in small letters -> torch's classes; its Adam decays weights as AdamW does, unless `adam_w_mode` is false."""
_SCHEDULERS = ("WarmupLR", "WarmupDecayLR")


class DummyOptim:
    """The optimizer of the DeepSpeed configuration; `lr` and `weight_decay` fill in its "auto"."""

    made: torch.optim.Optimizer | None = None

    def __init__(self, params: Any, lr: float = 0.001, weight_decay: float = 0.0, **kwargs: Any) -> None:
        self.params, self.lr, self.weight_decay, self.kwargs = params, lr, weight_decay, kwargs


class DummyScheduler:
    """The scheduler of the DeepSpeed configuration, or what `lr_scheduler_callable(optimizer)` makes; the numbers fill in its "auto"."""

    made: Any = None

    def __init__(
        self,
        optimizer: Any,
        total_num_steps: int | None = None,
        warmup_num_steps: int = 0,
        lr_scheduler_callable: Callable[[Any], Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self.optimizer, self.total_num_steps, self.warmup_num_steps = optimizer, total_num_steps, warmup_num_steps
        self.lr_scheduler_callable, self.kwargs = lr_scheduler_callable, kwargs


class Warmup(LRScheduler):
    """DeepSpeed's WarmupLR and, with a `total`, its WarmupDecayLR; one tick is one optimizer step of all processes."""

    ticks_once = True

    def __init__(self, optimizer: torch.optim.Optimizer, lowest: float, highest: float, warmup: int, total: int | None, logarithmic: bool) -> None:
        self.lowest, self.highest, self.total, self.logarithmic = lowest, highest, total, logarithmic
        self.warmup = max(2, warmup)
        super().__init__(optimizer)

    def get_lr(self) -> list[float]:  # type: ignore[override]
        return [self.lowest + (self.highest - self.lowest) * self._part(self.last_epoch - 1)] * len(self.optimizer.param_groups)

    def _part(self, step: int) -> float:
        if step < self.warmup:
            step = max(step, 0)
            return math.log(step + 1) / math.log(self.warmup) if self.logarithmic else step / self.warmup
        return 1.0 if self.total is None else max(0.0, (self.total - step) / max(1.0, self.total - self.warmup))


def realized(objects: tuple[Any, ...], plugin: DeepSpeedPlugin | None) -> tuple[Any, ...]:
    """`objects`, with what the stand-ins among them stand for.

    Raises:
        ValueError: the configuration does not describe it, or in a way that is not offered.
    """
    if not any(isinstance(item, (DummyOptim, DummyScheduler)) for item in objects):
        return objects
    return tuple(
        _optimizer(item, plugin) if isinstance(item, DummyOptim) else _scheduler(item, plugin) if isinstance(item, DummyScheduler) else item
        for item in objects
    )


def _optimizer(stand_in: DummyOptim, plugin: DeepSpeedPlugin | None) -> torch.optim.Optimizer:
    if stand_in.made is None:
        section = _section(plugin, "optimizer", "DummyOptim", "torch.optim.AdamW(model.parameters())")
        kind, settings = section.get("type", "AdamW"), dict(section.get("params", {}))
        if kind.lower() not in _OPTIMIZERS:
            raise ValueError(f"optimizer.type of the DeepSpeed configuration is {kind!r}: it must be one of Adam, AdamW, SGD, Adagrad; or make an optimizer in the script")
        name = _OPTIMIZERS[kind.lower()] if settings.pop("adam_w_mode", True) else "Adam"
        settings.pop("torch_adam", None)
        values = {key: value for key, value in settings.items() if value != "auto"}
        values = {"lr": stand_in.lr, "weight_decay": stand_in.weight_decay, **values}
        stand_in.made = getattr(torch.optim, name)(stand_in.params, **values)
    return stand_in.made


def _scheduler(stand_in: DummyScheduler, plugin: DeepSpeedPlugin | None) -> Any:
    if stand_in.made is None:
        of = stand_in.optimizer
        optimizer = _optimizer(of, plugin) if isinstance(of, DummyOptim) else of
        if stand_in.lr_scheduler_callable is not None:
            stand_in.made = stand_in.lr_scheduler_callable(optimizer)
        else:
            section = _section(plugin, "scheduler", "DummyScheduler", "a scheduler of torch")
            stand_in.made = _warmup(section, stand_in, optimizer)
    return stand_in.made


def _warmup(section: Mapping[str, Any], stand_in: DummyScheduler, optimizer: torch.optim.Optimizer) -> Warmup:
    kind, settings = section.get("type"), section.get("params", {})
    if kind not in _SCHEDULERS:
        raise ValueError(f"scheduler.type of the DeepSpeed configuration is {kind!r}: it must be one of {', '.join(_SCHEDULERS)}; or make a scheduler in the script")

    def setting(name: str, otherwise: Any) -> Any:
        value = settings.get(name, "auto")
        return otherwise if value == "auto" else value

    total = setting("total_num_steps", stand_in.total_num_steps) if kind == "WarmupDecayLR" else None
    if kind == "WarmupDecayLR" and total is None:
        raise ValueError('scheduler.params.total_num_steps of the DeepSpeed configuration is "auto": DummyScheduler(optimizer, total_num_steps=...) says it')
    lowest, highest = setting("warmup_min_lr", 0.0), setting("warmup_max_lr", optimizer.param_groups[0]["lr"])
    warmup = setting("warmup_num_steps", stand_in.warmup_num_steps)
    return Warmup(optimizer, lowest, highest, warmup, total, settings.get("warmup_type", "log") == "log")


def _section(plugin: DeepSpeedPlugin | None, name: str, stand_in: str, instead: str) -> Mapping[str, Any]:
    section = None if plugin is None else plugin.sections.get(name)
    if not section:
        where = "there is no DeepSpeed configuration" if plugin is None else f"the DeepSpeed configuration has no {name!r}"
        raise ValueError(f"{stand_in} stands for the {name} of the DeepSpeed configuration, and {where}: add it there, or make {instead}")
    return section
