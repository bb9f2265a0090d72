"""The loaders of `loaders.py`: the same batches, from plain PyTorch and from each runtime.

Every function returns a loader that gives this process its batches of 32; all processes together read `SAMPLES` times their number.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset

BATCH_SIZE = 32
SAMPLES = 256 * BATCH_SIZE
"""Samples per process and pass."""

Loader = Iterable[Any]
Build = Callable[[int, int], Loader]
"""(process, processes) -> the loader."""


class Rows(Dataset[tuple[torch.Tensor, int]]):
    """Map-style: rows of 16 floats with a class."""

    def __init__(self, samples: int) -> None:
        self.features = torch.randn(samples, 16)

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.features[index], index % 2


class Stream(IterableDataset[tuple[torch.Tensor, int]]):
    """The same rows, one after the other: every `step`th from `start`."""

    def __init__(self, samples: int, start: int = 0, step: int = 1) -> None:
        self.features = torch.randn(samples, 16)
        self.start, self.step = start, step

    def __iter__(self) -> Iterator[tuple[torch.Tensor, int]]:
        for index in range(self.start, len(self.features), self.step):
            yield self.features[index], index % 2


def _mapped(workers: int, kind: type[Any] = DataLoader) -> Build:
    def build(process: int, processes: int) -> Loader:
        rows = Rows(SAMPLES * processes)
        sampler = DistributedSampler(rows, processes, process) if processes > 1 else None
        return kind(rows, BATCH_SIZE, shuffle=sampler is None, sampler=sampler, num_workers=workers)

    return build


def _shared_by_hand(process: int, processes: int) -> Loader:
    return DataLoader(Stream(SAMPLES * processes, process, processes), BATCH_SIZE)


def _with(runtime: str, config: dict[str, Any], data: Callable[[int], Any], workers: int = 0) -> Build:
    def build(process: int, processes: int) -> Loader:
        made = data(SAMPLES * processes)
        shuffle = None if isinstance(made, IterableDataset) else True
        size = BATCH_SIZE * (processes if config.get("split_batches") else 1)
        return prepared(runtime, config)(DataLoader(made, size, shuffle=shuffle, num_workers=workers))

    return build


def prepared(runtime: str, config: dict[str, Any]) -> Callable[[Any], Any]:
    """What `runtime` ("accel_runtime", "accelerate") does with a loader, by its DataLoaderConfiguration; Fabric has none."""
    if runtime == "Fabric":
        from lightning_fabric import Fabric

        processes = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
        fabric = Fabric(accelerator="cpu", devices=processes, strategy="ddp" if processes > 1 else "auto")
        fabric.launch()
        return fabric.setup_dataloaders
    library = importlib.import_module(runtime)
    settings = importlib.import_module(f"{runtime}.utils").DataLoaderConfiguration(**config)
    return library.Accelerator(cpu=True, dataloader_config=settings).prepare


def _present() -> list[str]:
    found = {"accel_runtime": "accel_runtime", "accelerate": "accelerate", "lightning_fabric": "Fabric"}
    return [name for package, name in found.items() if importlib.util.find_spec(package)]


def _runtimes(
    config: dict[str, Any], data: Callable[[int], Any], workers: int = 0, fabric: bool = True
) -> dict[str, Build]:
    """A way to load for each runtime that is installed, and accel_runtime's exact mode."""
    names = [name for name in _present() if fabric or name != "Fabric"]
    builds = {name: _with(name, config, data, workers) for name in names}
    return builds | {"accel_runtime, exact": _with("accel_runtime", {**config, "split_batches": True}, data, workers)}


def cases(processes: int) -> dict[str, dict[str, Build]]:
    """Case -> contestant -> how its loader is made; the first is the one by hand."""
    apart, sent = {"dispatch_batches": False}, {"dispatch_batches": True}
    found = {
        "map-style": {"by hand": _mapped(0)} | _runtimes({}, Rows),
        "map-style, 2 workers": {"by hand": _mapped(2)} | _runtimes({}, Rows, 2),
        "iterable, each reads": {"by hand": _shared_by_hand} | _runtimes(apart, Stream),
    }
    if processes > 1:
        found["iterable, dispatched"] = {"by hand": _shared_by_hand} | _runtimes(sent, Stream, fabric=False)
    if importlib.util.find_spec("torchdata"):
        from torchdata.stateful_dataloader import StatefulDataLoader

        found["map-style, stateful"] = {"by hand": _mapped(0, StatefulDataLoader)} | _runtimes(
            {"use_stateful_dataloader": True}, Rows, fabric=False
        )
    return found
