"""What a run of `accel compare` measures: time, memory, losses and logged values, with next to nothing done per step.

Each process writes one JSON document, `rank0.json` and so on, at its end or when it is stopped after so many optimizer steps. Losses
stay where they are until then, since reading one would make the device wait.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
import weakref
from pathlib import Path
from typing import Any

from accel_migrate.verify.hooks import precision_asked, written
from accel_migrate.verify.hooks.leaving import leave_together
from accel_migrate.verify.hooks.steps import weighted

MOST_WARM_STEPS = 10
"""Steps at the beginning that do not count for the speed, at most: a tenth of all, and at least one."""


class Measurement:
    """Of one process; `limit` optimizer steps are measured, 0 for all.

    A step is one of the first optimizer that steps, done or skipped because gradients overflowed; its loss is the sum of the losses since
    the step before, each times the gradient that its backward started with.
    """

    def __init__(self, out: Path, rank: int, processes: int, limit: int) -> None:
        self.out, self.rank, self.processes, self.limit = out, rank, processes, limit
        self.warm = max(1, min(MOST_WARM_STEPS, limit // 10)) if limit else MOST_WARM_STEPS
        self.optimizer: weakref.ref[Any] | None = None
        self.waiting: list[tuple[Any, Any]] = []
        self.losses: list[list[tuple[Any, Any]]] = []
        self.times: list[float] = []
        self.rows: list[float] = []
        self.read = self.delivered = 0.0
        self.skipped = 0
        self.logged: dict[str, Any] = {}
        self.notes: list[str] = []
        self.accelerators = 0
        self.precision_seen = False
        self.owner = os.getpid()
        self.ended = False

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def leads(self, optimizer: Any) -> bool:
        """Whether its steps are counted."""
        if self.optimizer is None:
            self.optimizer = weakref.ref(optimizer)
        return self.optimizer() is optimizer

    def step(self, optimizer: Any, skipped: bool = False) -> None:
        if not self.leads(optimizer):
            return
        self.skipped += skipped
        self.losses.append(self.waiting)
        self.waiting = []
        self.rows.append(self.delivered or self.read)
        self.read = self.delivered = 0.0
        count = len(self.losses)
        if count in (self.warm, self.limit):
            _wait_for_device()
        self.times.append(time.perf_counter())
        if count == self.limit:
            self.end("stopped")
            leave_together(self.out, self.rank, self.processes)

    def end(self, how: str = "ended") -> None:
        """Write what was measured; once, and not in loader workers."""
        if self.ended or os.getpid() != self.owner:
            return
        self.ended = True
        memory, device = _peak_memory()
        document = {
            "end": how,
            "losses": [sum(weighted(root, seed) for root, seed in step) if step else None for step in self.losses],
            "times": self.times,
            "rows": self.rows,
            "warm": self.warm,
            "skipped": self.skipped,
            "peak_memory": memory,
            "device": device,
            "logged": {name: float(value) for name, value in self.logged.items()},
            "notes": self.notes,
            "accelerators": self.accelerators,
        }
        place = self.out / f"rank{self.rank}.json"
        place.with_suffix(".part").write_text(json.dumps(document), encoding="utf-8")
        place.with_suffix(".part").rename(place)


def install(settings: dict[str, Any], out: Path, rank: int, processes: int) -> None:
    """Seed and measure: {"steps", "seed", "precision", "folder", "temporary", "home"}."""
    import torch

    measurement = Measurement(out, rank, processes, settings["steps"])
    _seed(settings["seed"])
    precision_asked.ask(settings["precision"], measurement)
    _watch_backward(torch, measurement)
    _watch_steps(torch, measurement)
    _watch_loaders(torch, measurement)
    written.trace(lambda file: None, {settings["folder"]: "", settings["temporary"]: ""}, settings["home"])
    atexit.register(measurement.end)


def _seed(seed: int) -> None:
    """For scripts that do not seed themselves: every precision begins with the same weights."""
    import random

    import torch

    random.seed(seed)
    torch.manual_seed(seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed)  # type: ignore[attr-defined]


def _watch_backward(torch: Any, measurement: Measurement) -> None:
    """`Tensor.backward` goes through `torch.autograd.backward`; a loss that was scaled against underflow counts as it was before."""
    plain, plain_scale = torch.autograd.backward, torch.amp.GradScaler.scale
    before: list[tuple[weakref.ref[Any], Any]] = []

    def scale(self: Any, outputs: Any) -> Any:
        scaled = plain_scale(self, outputs)
        if isinstance(scaled, torch.Tensor) and scaled is not outputs:
            before[:] = [(weakref.ref(scaled), outputs.detach())]
        return scaled

    def backward(tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> None:
        roots = tensors if isinstance(tensors, (list, tuple)) else [tensors]
        seeds = grad_tensors if isinstance(grad_tensors, (list, tuple)) else [grad_tensors]
        for root, seed in zip(roots, [*seeds, *[None] * len(roots)]):  # noqa: B905
            unscaled = before[0][1] if before and before[0][0]() is root else root.detach()
            measurement.waiting.append((unscaled, seed))
        precision_asked.note_what_is_used(measurement)
        plain(tensors, grad_tensors, *args, **kwargs)

    torch.autograd.backward, torch.amp.GradScaler.scale = backward, scale


def _watch_steps(torch: Any, measurement: Measurement) -> None:
    from torch.optim.optimizer import register_optimizer_step_post_hook

    plain = torch.amp.GradScaler.step
    stepped: list[Any] = []

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        stepped.append(optimizer)
        measurement.step(optimizer)

    def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        stepped.clear()
        result = plain(self, optimizer, *args, **kwargs)
        if not stepped:
            measurement.step(getattr(optimizer, "optimizer", optimizer), skipped=True)
        return result

    torch.amp.GradScaler.step = step
    register_optimizer_step_post_hook(after)


def _watch_loaders(torch: Any, measurement: Measurement) -> None:
    """Rows of batches read for training: what this process reads, or its part of what its runtime shares out."""
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    plain_next = _BaseDataLoaderIter.__next__

    def read(self: Any) -> Any:
        batch = plain_next(self)
        if torch.is_grad_enabled():
            measurement.read += _rows(torch, batch)
        return batch

    _BaseDataLoaderIter.__next__ = read
    try:
        from accel_runtime.passes import Delivered
    except ImportError:
        return
    plain_init = Delivered.__init__

    def delivered(self: Any, share: Any, *args: Any, **kwargs: Any) -> None:
        plain_init(self, share, *args, **kwargs)
        if torch.is_grad_enabled():
            measurement.delivered += share.total / share.size

    Delivered.__init__ = delivered  # type: ignore[method-assign]


def _rows(torch: Any, batch: Any) -> int:
    """Entries along the first dimension of the first tensor of a batch, 0 if there is none."""
    if isinstance(batch, torch.Tensor):
        return batch.shape[0] if batch.ndim else 0
    parts = batch.values() if hasattr(batch, "values") else batch if isinstance(batch, (list, tuple)) else ()
    return next((rows for part in parts if (rows := _rows(torch, part))), 0)


def _wait_for_device() -> None:
    import torch

    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _peak_memory() -> tuple[int, str]:
    """Bytes that torch has had allocated on the device at most, or else of the whole process; and the kind of device."""
    import resource

    import torch

    if torch.cuda.is_available() and torch.cuda.is_initialized() and (peak := torch.cuda.max_memory_allocated()):
        return peak, "cuda"
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit, "cpu"
