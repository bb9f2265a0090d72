"""Cutting a model into the stages of a pipeline, and what runs in one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import Any

from torch import nn

_SCHEDULES = {"1f1b": "Schedule1F1B", "gpipe": "ScheduleGPipe"}


class Computing(nn.Module):
    """A stage as torch's schedule calls it: in the precision of the training."""

    def __init__(self, stage: nn.Module, region: Callable[[], AbstractContextManager[Any]]) -> None:
        super().__init__()
        self.stage = stage
        self.region = region

    def forward(self, *inputs: Any) -> Any:
        with self.region():
            return self.stage(*inputs)


def cut_evenly(model: nn.Sequential, count: int) -> list[int]:
    """The first layers of all stages but the first, so that each has parameters, and the largest as few as can be.

    Raises:
        ValueError: there are fewer layers with parameters than stages.
    """
    sizes = [sum(p.numel() for p in layer.parameters()) for layer in model]
    full = [at for at, size in enumerate(sizes) if size]
    if len(full) < count:
        raise ValueError(f"pp_size is {count} and {len(full)} layers of the model have parameters: a stage needs one at least; choose a smaller pp_size")
    low, high = max(sizes), sum(sizes)
    while low < high:  # the smallest limit for which so many stages are enough
        middle = (low + high) // 2
        low, high = (low, middle) if len(_within(sizes, middle)) < count else (middle + 1, high)
    cuts = _within(sizes, low)
    spare = [at for at in full[1:] if at not in cuts]
    return sorted([*cuts, *spare[: count - 1 - len(cuts)]])


def _within(sizes: list[int], limit: int) -> list[int]:
    """Where stages of at most `limit` parameters begin, filled from the front."""
    cuts, used = [], 0
    for at, size in enumerate(sizes):
        if used + size > limit:
            cuts.append(at)
            used = 0
        used += size
    return cuts


def slices(model: nn.Sequential, cuts: list[int], count: int) -> list[nn.Sequential]:
    """The stages that begin at `cuts`.

    Raises:
        ValueError: wrong numbers, or a weight in two stages.
    """
    edges = [0, *cuts, len(model)]
    if len(cuts) != count - 1 or any(a >= b for a, b in pairwise(edges)):
        raise ValueError(f"cuts is {cuts}: for pp_size {count} it takes {count - 1} rising numbers from 1 to {len(model) - 1}, the first layer of each stage but the first")
    parts = [model[a:b] for a, b in pairwise(edges)]
    owner: dict[int, int] = {}
    for stage, part in enumerate(parts):
        for name, parameter in part.named_parameters():
            if owner.setdefault(id(parameter), stage) != stage:
                raise ValueError(f"{name} is a weight of stages {owner[id(parameter)]} and {stage}: a weight that layers share cannot be in two stages; cut elsewhere, or do not share it")
    return parts


def largest_divisor(rows: int, limit: int) -> int:
    """The largest number up to `limit` that divides `rows`."""
    return next(n for n in range(min(limit, max(rows, 1)), 0, -1) if rows % n == 0)


def schedule_class(given: Any) -> Any:
    """The schedule of torch with this name.

    Raises:
        ValueError: there is none.
    """
    import torch.distributed.pipelining as pipelining

    if not isinstance(given, str):
        return given
    if given.lower() not in _SCHEDULES:
        raise ValueError(f"schedule is {given!r}: it must be '1F1B' or 'GPipe', or a class of torch.distributed.pipelining with one stage for each process")
    return getattr(pipelining, _SCHEDULES[given.lower()])
