"""The contestants of `loaders.py` that skip 10,000 batches of 4 and read the next."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
from collections.abc import Callable
from typing import Any

import torch
from loader_passes import Rows, Stream, prepared
from torch.utils.data import DataLoader, RandomSampler

BATCH_SIZE = 4
SKIPPED = 10_000
SAMPLES = (SKIPPED + 4) * BATCH_SIZE


def _next_of(loader: Any) -> None:
    iterator = iter(loader)
    next(iterator)
    del iterator


class _Rest:
    """Batches of a shuffled order from the `skipped`th on, and of those every `processes`th: what one would write by hand."""

    def __init__(self, samples: int, skipped: int, process: int, processes: int) -> None:
        self.sampler = RandomSampler(range(samples))
        self.skipped, self.process, self.processes = skipped, process, processes

    def __iter__(self) -> Any:
        indices = list(self.sampler)
        for start in range(
            (self.skipped * self.processes + self.process) * BATCH_SIZE, len(indices), BATCH_SIZE * self.processes
        ):
            yield indices[start : start + BATCH_SIZE]


def _by_hand(process: int, processes: int) -> dict[str, Callable[[], None]]:
    mapped = DataLoader(
        Rows(SAMPLES * processes), batch_sampler=_Rest(SAMPLES * processes, SKIPPED, process, processes)
    )
    stream = DataLoader(Stream(SAMPLES * processes, process, processes), BATCH_SIZE)

    def read() -> None:
        iterator = iter(stream)
        next(itertools.islice(iterator, SKIPPED, None))

    return {"map-style": lambda: _next_of(mapped), "iterable": read, "iterable, dispatched": read}


def _with(runtime: str, data: type[Any], config: dict[str, Any], processes: int) -> Callable[[], None]:
    skip = importlib.import_module(runtime).skip_first_batches
    shuffle = None if data is Stream else True
    size = BATCH_SIZE * (processes if config.get("split_batches") else 1)
    loader = prepared(runtime, config)(DataLoader(data(SAMPLES * processes), size, shuffle=shuffle))
    return lambda: _next_of(skip(loader, SKIPPED))


def cases(process: int, processes: int) -> dict[str, dict[str, Callable[[], None]]]:
    """Case -> contestant -> what skips and reads."""
    torch.manual_seed(0)
    runtimes = [name for name in ("accel_runtime", "accelerate") if importlib.util.find_spec(name)]
    kinds: dict[str, tuple[type[Any], dict[str, Any]]] = {
        "map-style": (Rows, {}),
        "iterable": (Stream, {"dispatch_batches": False}),
        "iterable, dispatched": (Stream, {"dispatch_batches": True}),
    }
    hand = _by_hand(process, processes)
    found = {}
    for case, (data, config) in kinds.items():
        if processes > 1 or "dispatched" not in case:
            found[case] = {"by hand": hand[case]} | {name: _with(name, data, config, processes) for name in runtimes}
            found[case]["accel_runtime, exact"] = _with(
                "accel_runtime", data, {**config, "split_batches": True}, processes
            )
    return found
