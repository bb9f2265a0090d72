"""Batches that a script makes by itself: process 0's is cut like a prepared loader's, and every process gets its rows."""

from __future__ import annotations

from typing import Any

from .. import collectives
from ..batches import Share, Tracker
from ..nested import find_batch_size, leaves, slice_rows
from ..world import World

_SOURCE = "shard_batch"


def shard_batch(world: World, tracker: Tracker, batch: Any) -> Any:
    """This process's rows of process 0's `batch`; see `Accelerator.shard_batch`."""
    if world.size == 1:
        return batch
    total, part = _on_the_host(world, batch) if all(t.device.type == "cpu" for t in leaves(batch)) else _on_the_device(world, batch)
    if not total:
        raise ValueError(f"shard_batch got {type(batch).__name__} without rows: it takes tensors, or a list, with one row for each sample")
    share = Share.of(total, world.size, world.rank)
    _pass(tracker).deliver(share, part)
    return part


def _on_the_host(world: World, batch: Any) -> tuple[int, Any]:
    """Each process is sent its rows only."""
    if world.rank:
        return collectives.scatter_object(world, None)
    total = find_batch_size(batch) or 0
    shares = [Share.of(total, world.size, rank) for rank in range(world.size)]
    return collectives.scatter_object(world, [(total, slice_rows(batch, s.start, s.stop, total) if total else None) for s in shares])


def _on_the_device(world: World, batch: Any) -> tuple[int, Any]:
    batch = collectives.broadcast(world, batch)
    total = find_batch_size(batch) or 0
    share = Share.of(total, world.size, world.rank)
    return total, slice_rows(batch, share.start, share.stop, total)


def _pass(tracker: Tracker) -> Any:
    """The pass without end to which such batches belong; the innermost one from now on."""
    run = next((run for run in tracker.runs if run.source == _SOURCE), None)
    if run is None:
        return tracker.start(None, _SOURCE)
    if tracker.runs[-1] is not run:
        tracker.runs.remove(run)
        tracker.runs.append(run)
    run.totals.clear()
    return run
