"""The loops of `step_time.py`: the same training, written by hand and with each runtime.

Every contestant builds a fresh MLP 16-32-2 with its optimizer and loader, eight samples per process and step, and
returns a function that trains for one pass over the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import LRScheduler, StepLR
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

Batches = Iterable[tuple[torch.Tensor, torch.Tensor]]

BATCH_SIZE = 8
"""Samples per process and step."""


@dataclass(frozen=True)
class Case:
    """What a step is made of."""

    loads: bool = False
    """Batches come from a shuffling DataLoader, not from a list."""
    extras: bool = False
    """With clipping and a scheduler."""
    window: int | None = None
    """Micro-batches of an optimizer step; None: the loop knows no accumulation."""


Build = Callable[[int, int, Case], Callable[[], None]]
"""(steps in a pass, processes, case) -> the pass."""


def parts() -> tuple[nn.Module, torch.optim.Optimizer, LRScheduler]:
    """The model, its optimizer and a scheduler, with the same weights in every process."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    return model, optimizer, StepLR(optimizer, step_size=100)


def data(samples: int) -> TensorDataset:
    """Rows of 16 floats, each with a class."""
    features = torch.randn(samples, 16)
    return TensorDataset(features, (features.sum(dim=1) > 0).long())


def at_hand(steps: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The batches of one process, in a list."""
    return list(DataLoader(data(BATCH_SIZE * steps), BATCH_SIZE))


def by_hand(steps: int, processes: int, case: Case) -> Callable[[], None]:
    """Plain PyTorch on one process, DistributedDataParallel on more."""
    return _by_hand(steps, processes, case, None)


def in_own_group(steps: int, processes: int, case: Case) -> Callable[[], None]:
    """The same, with a process group for the gradients alone: what that costs is luck, for its threads stay where they are."""
    return _by_hand(steps, processes, case, torch.distributed.new_group())


def _by_hand(steps: int, processes: int, case: Case, group: Any) -> Callable[[], None]:
    model, optimizer, scheduler = parts()
    if processes > 1:
        model = DistributedDataParallel(model, process_group=group)
    batches: Batches = at_hand(steps)
    if case.loads:
        rows = data(BATCH_SIZE * steps * processes)
        sampler = DistributedSampler(rows) if processes > 1 else None
        batches = DataLoader(rows, BATCH_SIZE, shuffle=sampler is None, sampler=sampler)
    criterion = nn.CrossEntropyLoss()
    window = case.window or 1

    def micro_step(x: torch.Tensor, y: torch.Tensor) -> None:
        loss = criterion(model(x), y)
        (loss / window if window > 1 else loss).backward()

    def accumulating() -> None:
        for index, (x, y) in enumerate(batches, start=1):
            if index % window and processes > 1:
                with model.no_sync():
                    micro_step(x, y)
            else:
                micro_step(x, y)
            if index % window == 0:
                optimizer.step()
                optimizer.zero_grad()

    if case.window is not None:
        return accumulating
    return loop(case, batches, (model, optimizer, scheduler), torch.Tensor.backward, _clip)


def _clip(model: nn.Module, _optimizer: torch.optim.Optimizer) -> None:
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)


def loop(
    case: Case,
    batches: Batches,
    trained: tuple[Any, Any, Any],
    backward: Callable[[torch.Tensor], None],
    clip: Callable[[Any, Any], None],
) -> Callable[[], None]:
    """A pass that trains the (model, optimizer, scheduler) without accumulation."""
    model, optimizer, scheduler = trained
    criterion = nn.CrossEntropyLoss()

    def plain() -> None:
        for x, y in batches:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            backward(loss)
            optimizer.step()

    def with_extras() -> None:
        for x, y in batches:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            backward(loss)
            clip(model, optimizer)
            optimizer.step()
            scheduler.step()

    return with_extras if case.extras else plain
