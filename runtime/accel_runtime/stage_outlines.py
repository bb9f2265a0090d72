"""What the stages of a pipeline hand on: found by a run of one micro-batch that leaves no trace in the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from .checkpoint import streams
from .nested import leaves, map_tensors, others
from .world import World

Outline = Any
"""What a stage returns, nested as it is, with tensors on the meta device."""


@torch.no_grad()
def explore(run: Callable[[Any], Any], stage: nn.Module, stages: World, first: Any) -> list[Outline]:
    """What each stage returns for a micro-batch; all processes of the pipeline have to ask.

    torch would run the stages on memory as it happens to be, which spoils running statistics and indexes embeddings out of range:
    here the first stage gets rows of the batch, and the others zeros.

    Args:
        run: calls this process's stage with what the one before returns.
        stage: its module, whose buffers stay as they are.
        stages: the processes of the pipeline.
        first: what the first stage gets.

    Raises:
        RuntimeError: another stage failed, or one hands on what cannot be sent.
    """
    found: list[Outline] = []
    for number in range(stages.size):
        said: list[Any] = [None]
        if number == stages.rank:
            given = map_tensors(lambda t: torch.zeros_like(t, device=stages.device), found[-1]) if found else first
            said, error = _said(run, given, stage, stages)
        dist.broadcast_object_list(said, dist.get_global_rank(stages.group, number), group=stages.group)
        if isinstance(said[0], str):
            raise (
                error
                if number == stages.rank and error is not None
                else RuntimeError(f"stage {number} of the pipeline failed: {said[0]}")
            )
        found.append(said[0][0])
    return found


def filled(outline: Outline, tensors: Any) -> Any:
    """`outline` with `tensors`, in their order."""
    following = iter(tensors)
    return map_tensors(lambda _: next(following), outline)


def examples(outline: Outline, learns: bool) -> tuple[torch.Tensor, ...]:
    """The tensors as `PipelineStage` takes them.

    All floating ones count as learning, also those of stages that are frozen now: they may learn later.
    """
    return tuple(t.detach().requires_grad_(learns and t.is_floating_point()) for t in leaves(outline))


def _said(run: Callable[[Any], Any], given: Any, stage: nn.Module, stages: World) -> tuple[list[Any], Exception | None]:
    """The outline in a tuple, or what went wrong."""
    try:
        with undisturbed(stage, stages):
            output = run(given)
        strange = {type(each).__name__ for each in others(output) if each is not None}
        if strange and stages.rank < stages.size - 1:
            raise ValueError(
                f"stage {stages.rank} of the pipeline hands on an object of class {min(strange)}: it must be tensors, or tuples, lists and dictionaries of them; cut elsewhere, or return tensors"
            )
        return [(map_tensors(lambda t: torch.empty(t.shape, dtype=t.dtype, device="meta"), output),)], None
    except Exception as error:
        return [f"{type(error).__name__}: {error}"], error


@contextmanager
def undisturbed(module: nn.Module, world: World) -> Iterator[None]:
    """Inside, buffers may change and random numbers be drawn: afterwards all is as before."""
    states = streams.take(world)
    kept = [
        (each, name, buffer, buffer.clone())
        for each in module.modules()
        for name, buffer in each._buffers.items()
        if buffer is not None
    ]
    try:
        yield
    finally:
        for each, name, buffer, copy in kept:
            each._buffers[name] = buffer
            buffer.copy_(copy)
        streams.put(world, states)
