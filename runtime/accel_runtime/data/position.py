"""Where a pass over a loader has come to, and the random streams it began with: enough to go on from there later.

A pass is repeated from its beginning: with the streams of then the samplers draw the same order, batches that were
delivered are passed over, and the streams are set to where they were when the position was taken.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from ..rng import put_states, take_states

_DEEP = 8


@dataclass
class Position:
    """Attributes:
    batches: how many of the pass have been delivered.
    start: the streams when it began, as `take` gives them.
    now: the streams to go on with, None for those of the process.
    kept_workers: whether the workers had lived through an earlier pass.
    epoch: the epoch of the pass, for loaders that count epochs.
    reading: what is known of how the data set draws (see `reading.Reading`).
    """

    batches: int
    start: Any
    now: Any = None
    kept_workers: bool = False
    epoch: int | None = None
    reading: list[bool] = field(default_factory=list)


def take(loader: Any) -> tuple[Any, Any]:
    """The states of the process's streams, and of what the parts of `loader` have of their own."""
    return take_states()[:3], take_own(loader)


def put(loader: Any, states: tuple[Any, Any]) -> None:
    """Set the process's streams, and what the parts of `loader` have of their own."""
    put_states((*states[0], []))
    put_own(loader, states[1])


def take_own(loader: Any) -> tuple[list[Any], list[int | None]]:
    """The states of the generators of the parts of `loader`, and the epochs of those that count epochs."""
    parts = list(_parts(loader))
    return [_state(generator) for generator in _generators(parts)], [_epoch(part) for part in parts]


def put_own(loader: Any, states: tuple[list[Any], list[int | None]]) -> None:
    """Set generators and epochs of the parts of `loader`; what is of another kind than before is left."""
    parts = list(_parts(loader))
    for generator, state in zip(_generators(parts), states[0], strict=False):
        _set_state(generator, state)
    for part, epoch in zip(parts, states[1], strict=False):
        if epoch is not None and _epoch(part) not in (None, epoch):
            part.set_epoch(epoch)


def _epoch(part: Any) -> int | None:
    epoch = getattr(part, "__dict__", {}).get("epoch")
    return epoch if isinstance(epoch, int) and hasattr(part, "set_epoch") else None


def _generators(parts: list[Any]) -> list[Any]:
    """The generators which the parts hold as attributes, each once, in a fixed order."""
    found: dict[int, Any] = {}
    kinds = _kinds()
    for part in parts:
        for value in getattr(part, "__dict__", {}).values():
            if isinstance(value, kinds):
                found.setdefault(id(value), value)
    return list(found.values())


def _parts(loader: Any) -> Iterator[Any]:
    """The loader, its samplers, data sets, transforms and collation, each once, in a fixed order."""
    waiting = [(loader, 0), *((getattr(loader, name, None), 1) for name in ("sampler", "batch_sampler", "dataset", "collate_fn"))]
    seen: set[int] = set()
    while waiting:
        part, depth = waiting.pop(0)
        if part is None or id(part) in seen or depth > _DEEP:
            continue
        seen.add(id(part))
        yield part
        if depth:
            waiting.extend((inner, depth + 1) for inner in _held(part))


def _held(part: Any) -> Iterator[Any]:
    held = getattr(part, "__dict__", {})
    for name in ("sampler", "batch_sampler", "dataset", "datasets", "data_source", "transform", "transforms"):
        value = held.get(name)
        yield from value if isinstance(value, (list, tuple)) else [value]


def _kinds() -> tuple[type, ...]:
    numpy = sys.modules.get("numpy")
    return (torch.Generator, random.Random, *((numpy.random.Generator, numpy.random.RandomState) if numpy is not None else ()))


def _state(generator: Any) -> Any:
    if isinstance(generator, torch.Generator):
        return "torch", generator.get_state()
    if isinstance(generator, random.Random):
        return "python", generator.getstate()
    if hasattr(generator, "bit_generator"):
        return "numpy", generator.bit_generator.state
    return "legacy", generator.get_state()


def _set_state(generator: Any, state: tuple[str, Any]) -> None:
    if _state(generator)[0] != state[0]:
        return
    if state[0] == "torch":
        generator.set_state(state[1])
    elif state[0] == "python":
        generator.setstate(state[1])
    elif state[0] == "numpy":
        generator.bit_generator.state = state[1]
    else:
        generator.set_state(state[1])
