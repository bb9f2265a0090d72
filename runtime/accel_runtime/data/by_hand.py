"""Batches that a script makes by itself: process 0's is cut like a prepared loader's, and every process gets its rows."""

from __future__ import annotations

from typing import Any

import torch

from .. import collectives, fast_pickle
from ..batches import Share, Tracker
from ..nested import children, leaves, map_tensors, rebuild
from ..world import World

_SOURCE = "shard_batch"


def shard_batch(world: World, tracker: Tracker, batch: Any) -> Any:
    """This process's rows of process 0's `batch`; see `Accelerator.shard_batch`."""
    if world.whole is not None:
        batch = _of_the_main_process(world.whole, batch)
    if world.size == 1:
        return batch
    total, part = _on_the_host(world, batch) if all(t.device.type == "cpu" for t in leaves(batch)) else _on_the_device(world, batch)
    if not total:
        raise ValueError(f"shard_batch got {type(batch).__name__} without rows: it takes tensors, arrays or lists with one row for each sample, or a tuple or dict of such")
    share = Share.of(total, world.size, world.rank)
    _pass(tracker).deliver(share, part)
    return part


def shard_state(world: World, state: Any, dim: int) -> Any:
    """This process's part, along `dim`, of tensors that all processes have alike."""
    sizes = {tensor.size(dim) for tensor in leaves(state) if tensor.ndim > dim}
    if len(sizes) != 1:
        raise ValueError(f"shard_batch(..., dim={dim}) got {type(state).__name__} with {sorted(sizes) or 'no'} samples: its tensors must have as many samples in that dimension")
    share = Share.of(sizes.pop(), world.size, world.rank)
    return map_tensors(lambda tensor: tensor.narrow(dim, share.start, share.stop - share.start).contiguous() if tensor.ndim > dim else tensor, state)


def _of_the_main_process(world: World, batch: Any) -> Any:
    """Where processes compute together, each picked a batch by itself: all take the main process's."""
    if all(t.device.type == "cpu" for t in leaves(batch)):
        return collectives.broadcast_object_list(world, [batch])[0]
    return collectives.broadcast(world, batch)


def _on_the_host(world: World, batch: Any) -> tuple[int, Any]:
    """Each process is sent its rows only."""
    if world.rank:
        return collectives.scatter_object(world, None)
    total = count_rows(batch) or 0
    shares = [Share.of(total, world.size, rank) for rank in range(world.size)]
    parts = [cut_rows(batch, s.start, s.stop, total) if total else None for s in shares]
    # a copy for this process too: rows of what the program keeps and cuts again would pass for the other batches cut of it
    parts[0] = fast_pickle.loads(torch.frombuffer(fast_pickle.dumps(parts[0]), dtype=torch.uint8))
    return collectives.scatter_object(world, [(total, part) for part in parts])


def _on_the_device(world: World, batch: Any) -> tuple[int, Any]:
    batch = collectives.broadcast(world, batch)
    total = count_rows(batch) or 0
    share = Share.of(total, world.size, world.rank)
    return total, cut_rows(batch, share.start, share.stop, total)


def count_rows(batch: Any) -> int | None:
    """The number of samples: of the first tensor or array with dimensions, or of the first list; a tuple is several fields."""
    if _is_array(batch):
        return batch.shape[0]
    if isinstance(batch, list):
        return len(batch)
    counts = (count_rows(part) for part in children(batch))
    known = next((n for n in counts if n is not None), None)
    return len(batch) if known is None and _is_plain_tuple(batch) else known


def cut_rows(batch: Any, start: int, stop: int, rows: int) -> Any:
    """Samples `start` to `stop` of a batch with `rows` of them; what has another length belongs to the batch as a whole."""
    if _is_array(batch) or isinstance(batch, list) or (_is_plain_tuple(batch) and all(count_rows(part) is None for part in batch)):
        return getattr(batch, "iloc", batch)[start:stop] if len(batch) == rows else batch
    return rebuild(batch, lambda part: cut_rows(part, start, stop, rows))


def _is_array(data: Any) -> bool:
    """Whether `data` is a tensor, an array or a table with at least one dimension."""
    shape = getattr(data, "shape", None)
    return isinstance(shape, tuple) and len(shape) > 0 and hasattr(data, "__getitem__")


def _is_plain_tuple(data: Any) -> bool:
    return isinstance(data, tuple) and not hasattr(data, "_fields")


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
