"""The loops of `step_time.py` with a runtime: this one, Hugging Face's accelerate and Lightning Fabric."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

from step_loops import BATCH_SIZE, Batches, Build, Case, at_hand, by_hand, data, in_own_group, loop, parts
from torch import nn
from torch.utils.data import DataLoader


def with_accel_runtime(steps: int, processes: int, case: Case) -> Callable[[], None]:
    """What the codemod emits: the loader has the global batch, the runtime cuts it."""
    from accel_runtime import Accelerator

    accelerator = Accelerator(cpu=True, split_batches=True, gradient_accumulation_steps=case.window or 1)
    return _accelerated(accelerator, BATCH_SIZE * processes, steps, processes, case)


def per_process(steps: int, processes: int, case: Case) -> Callable[[], None]:
    """The same runtime where a loader has the batch of one process, as in scripts written for accelerate."""
    from accel_runtime import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=case.window or 1)
    return _accelerated(accelerator, BATCH_SIZE, steps, processes, case)


def with_accelerate(steps: int, processes: int, case: Case) -> Callable[[], None]:
    """Hugging Face's runtime with its defaults."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=case.window or 1)
    accelerator.gradient_accumulation_steps = case.window or 1  # its states are shared: the case before chose another
    return _accelerated(accelerator, BATCH_SIZE, steps, processes, case)


def _accelerated(accelerator: Any, batch_size: int, steps: int, processes: int, case: Case) -> Callable[[], None]:
    model, optimizer, scheduler = accelerator.prepare(*parts())
    batches: Batches = at_hand(steps)
    if case.loads:
        batches = accelerator.prepare(DataLoader(data(BATCH_SIZE * steps * processes), batch_size, shuffle=True))
    criterion = nn.CrossEntropyLoss()

    def accumulating() -> None:
        for x, y in batches:
            with accelerator.accumulate(model):
                loss = criterion(model(x), y)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()

    def clip(model: Any, _optimizer: Any) -> None:
        accelerator.clip_grad_norm_(model.parameters(), 1.0)

    if case.window is not None:
        return accumulating
    return loop(case, batches, (model, optimizer, scheduler), accelerator.backward, clip)


def with_fabric(steps: int, processes: int, case: Case) -> Callable[[], None]:
    """Lightning Fabric, which leaves accumulation to the script but for the reduction."""
    from lightning_fabric import Fabric

    fabric = Fabric(accelerator="cpu", devices=processes, strategy="ddp" if processes > 1 else "auto")
    fabric.launch()
    model, optimizer, scheduler = parts()
    model, optimizer = fabric.setup(model, optimizer)
    batches: Batches = at_hand(steps)
    if case.loads:
        batches = fabric.setup_dataloaders(DataLoader(data(BATCH_SIZE * steps * processes), BATCH_SIZE, shuffle=True))
    criterion = nn.CrossEntropyLoss()
    window = case.window or 1

    def accumulating() -> None:
        for index, (x, y) in enumerate(batches, start=1):
            with fabric.no_backward_sync(model, enabled=index % window != 0):
                loss = criterion(model(x), y)
                fabric.backward(loss / window if window > 1 else loss)
            if index % window == 0:
                optimizer.step()
                optimizer.zero_grad()

    def clip(model: Any, optimizer: Any) -> None:
        fabric.clip_gradients(model, optimizer, max_norm=1.0)

    if case.window is not None:
        return accumulating
    return loop(case, batches, (model, optimizer, scheduler), fabric.backward, clip)


def contestants(processes: int) -> dict[str, Build]:
    """By name, the one the others are compared with first; others' runtimes only where they are installed."""
    found: dict[str, Build] = {
        "by hand": by_hand,
        **({"by hand, own group": in_own_group} if processes > 1 else {}),
        "accel_runtime": with_accel_runtime,
        "the same, per process": per_process,
    }
    if importlib.util.find_spec("accelerate"):
        found["accelerate"] = with_accelerate
    if importlib.util.find_spec("lightning_fabric"):
        found["Fabric"] = with_fabric
    return found
