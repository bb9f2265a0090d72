"""Dispatch: the main process reads the loader and sends every process its part; the others read nothing.

A step's parts are the loader's next N batches. If the last step has fewer, what there is gets joined, completed with
the first rows of the first step so that it divides, and cut. A failure while reading reaches all processes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from ..collectives import Room, scatter_object
from ..nested import concatenate, find_batch_size, map_tensors, slice_rows
from ..world import World

Step = tuple[int, list[Any]]
Slice = Callable[..., Any]


def dispatch(world: World, steps: Iterable[Step] | None) -> Iterator[tuple[int, Any]]:
    """Yield (note, this process's part) of each step which the main process gives as (note, parts); the others give None.

    Raises:
        RuntimeError: on the other processes, if the main process fails to read.
    """
    iterator = iter(steps) if steps is not None else None
    room = Room()
    while True:
        message, error = _next_message(world, iterator) if iterator is not None else (None, None)
        kind, note, part = scatter_object(world, message, room=room)
        if error is not None:
            raise error
        if kind == "failed":
            raise RuntimeError(f"the main process failed to read the next batch: {note}")
        if kind == "end":
            return
        yield note, part


def _next_message(world: World, iterator: Iterator[Step]) -> tuple[list[Any], Exception | None]:
    try:
        note, parts = next(iterator)
    except StopIteration:
        return [("end", 0, None)] * world.size, None
    except Exception as error:
        return [("failed", f"{type(error).__name__}: {error}", None)] * world.size, error
    return [("part", note, part) for part in parts], None


def per_process_steps(batches: Iterable[Any], size: int, drop_last: bool, skip: int, slice_fn: Slice | None) -> Iterator[Step]:
    """Group the loader's batches into steps of `size` parts; the note is the number of rows that are no repetitions, or 0."""
    iterator = iter(batches)
    first: Any = None
    for index in itertools.count():
        group = list(itertools.islice(iterator, size))
        if not group or (drop_last and len(group) < size):
            return
        if first is None:
            first = map_tensors(torch.clone, slice_rows(group[0], 0, size))  # the batch is given away, and may be changed
        if index < skip:
            continue
        if slice_fn is None and len(group) == size and len({find_batch_size(batch) for batch in group}) == 1:
            yield 0, group
        else:
            yield _cut(group, first, size, slice_fn)


def _cut(group: list[Any], first: Any, size: int, slice_fn: Slice | None) -> Step:
    joined = _join(group)
    rows = find_batch_size(joined)
    if rows is None:
        raise ValueError("dispatch_batches=True needs batches that hold a tensor or a list: there is nothing to cut in this one")
    missing = -rows % size
    while missing:
        more = slice_rows(first, 0, missing)
        taken = find_batch_size(more) or 0
        joined, missing = concatenate([joined, more]), missing - taken
    each = -(-rows // size)
    if slice_fn is not None:
        cuts = [slice(rank * each, (rank + 1) * each) for rank in range(size)]
        return rows, [slice_fn(joined, cut, process_index=rank, num_processes=size) for rank, cut in enumerate(cuts)]
    return rows, [slice_rows(joined, rank * each, (rank + 1) * each) for rank in range(size)]


def _join(group: list[Any]) -> Any:
    try:
        return group[0] if len(group) == 1 else concatenate(group)
    except RuntimeError as error:
        raise ValueError(
            "You can't use batches of different size with `dispatch_batches=True` or when using an `IterableDataset`: "
            "pass `dispatch_batches=False`, so that each process fetches its own batches, or `split_batches=True`."
        ) from error
