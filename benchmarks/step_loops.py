"""The contestants of `step_time.py`: the same training, written by hand and for each runtime.

Every function builds a fresh MLP 16-32-2 with its optimizer and loader, eight samples per process and step, and returns
a function that trains for one pass over the data.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import LRScheduler, StepLR
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

Batches = Iterable[tuple[torch.Tensor, torch.Tensor]]
Build = Callable[[int, int, bool, bool], Callable[[], None]]
"""(steps in a pass, processes, with a DataLoader, with clipping and a scheduler) -> the pass."""

BATCH_SIZE = 8
"""Samples per process and step."""


def _parts() -> tuple[nn.Module, torch.optim.Optimizer, LRScheduler]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    return model, optimizer, StepLR(optimizer, step_size=100)


def _data(samples: int) -> TensorDataset:
    features = torch.randn(samples, 16)
    return TensorDataset(features, (features.sum(dim=1) > 0).long())


def _at_hand(steps: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return list(DataLoader(_data(BATCH_SIZE * steps), BATCH_SIZE))


def by_hand(steps: int, processes: int, loads: bool, extras: bool) -> Callable[[], None]:
    """Plain PyTorch on one process, DistributedDataParallel on more."""
    model, optimizer, scheduler = _parts()
    if processes > 1:
        model = DistributedDataParallel(model)
    batches: Batches = _at_hand(steps)
    if loads:
        data = _data(BATCH_SIZE * steps * processes)
        sampler = DistributedSampler(data) if processes > 1 else None
        batches = DataLoader(data, BATCH_SIZE, shuffle=sampler is None, sampler=sampler)
    criterion = nn.CrossEntropyLoss()

    def plain() -> None:
        for x, y in batches:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()

    def with_extras() -> None:
        for x, y in batches:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()

    return with_extras if extras else plain


def _accelerated(accelerator: Any, batch_size: int, steps: int, processes: int, loads: bool, extras: bool) -> Callable[[], None]:
    model, optimizer, scheduler = accelerator.prepare(*_parts())
    batches: Batches = _at_hand(steps)
    if loads:
        batches = accelerator.prepare(DataLoader(_data(BATCH_SIZE * steps * processes), batch_size, shuffle=True))
    criterion = nn.CrossEntropyLoss()

    def plain() -> None:
        for x, y in batches:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            accelerator.backward(loss)
            optimizer.step()

    def with_extras() -> None:
        for x, y in batches:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()

    return with_extras if extras else plain


def with_accel_runtime(steps: int, processes: int, loads: bool, extras: bool) -> Callable[[], None]:
    """What the codemod emits: the loader has the global batch, the runtime cuts it."""
    from accel_runtime import Accelerator

    accelerator = Accelerator(cpu=True, split_batches=True)
    return _accelerated(accelerator, BATCH_SIZE * processes, steps, processes, loads, extras)


def with_accelerate(steps: int, processes: int, loads: bool, extras: bool) -> Callable[[], None]:
    """Hugging Face's runtime with its defaults: the loader has the batch of one process."""
    from accelerate import Accelerator

    return _accelerated(Accelerator(cpu=True), BATCH_SIZE, steps, processes, loads, extras)


def contestants() -> dict[str, Build]:
    """By name, the one the others are compared with first; accelerate only where it is installed."""
    found: dict[str, Build] = {"by hand": by_hand, "accel_runtime": with_accel_runtime}
    if importlib.util.find_spec("accelerate"):
        found["accelerate"] = with_accelerate
    return found
