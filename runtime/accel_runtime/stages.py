"""Cutting a model into the stages of a pipeline, and what runs in one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from .nested import leaves, slice_rows
from .stage_outlines import Outline, filled

_SCHEDULES = {"1f1b": "Schedule1F1B", "gpipe": "ScheduleGPipe"}


class Computing(nn.Module):
    """A stage as torch's schedule calls it: with tensors, in the precision of the training.

    Args:
        stage: the layers.
        region: encloses their run.
        given: what the stage before returns, as `explore` found it; None for the first stage.
        flat: return a tuple of tensors, as torch sends them, instead of what the layers return.
    """

    def __init__(self, stage: nn.Module, region: Callable[[], AbstractContextManager[Any]], given: Outline = None, flat: bool = False) -> None:
        super().__init__()
        self.stage = stage
        self.region = region
        self.given = given
        self.flat = flat

    def forward(self, *inputs: Any) -> Any:
        output = self.run(inputs if self.given is None else filled(self.given, inputs), self.given is None)
        return tuple(t.contiguous() for t in leaves(output)) if self.flat else output

    def run(self, inputs: Any, first: bool) -> Any:
        """What the layers return: a Sequential takes what the layer before returned as it is, other modules take the parts of a tuple."""
        in_one = not first and (_is_sequential(self.stage) or not isinstance(inputs, (tuple, list)))
        with self.region():
            return self.stage(inputs) if in_one else self.stage(*inputs)


def _is_sequential(stage: nn.Module) -> bool:
    return type(getattr(stage, "_orig_mod", stage)).forward is nn.Sequential.forward


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


def in_parts(target: Any, rows: int, parts: int) -> list[Any]:
    """The targets of the micro-batches of a batch of `rows` rows: of tensors in whatever is nested, those of their rows."""
    if isinstance(target, torch.Tensor) and target.ndim and len(target) % parts == 0:
        return list(target.tensor_split(parts))  # those of flattened rows, too
    size = rows // parts
    return [slice_rows(target, at, at + size, rows) for at in range(0, rows, size)] if rows else [target]


def recent(cache: OrderedDict[Any, Any], key: Any, make: Callable[[], Any], most: int) -> Any:
    """`cache[key]`, made if it is not there; the `most` that were asked for last stay."""
    if key not in cache:
        if len(cache) >= most:
            cache.popitem(last=False)
        cache[key] = make()
    cache.move_to_end(key)
    return cache[key]


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
