"""A training that can be interrupted after any batch, and the comparison of the resumed run with the uninterrupted one."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from accel_runtime import Accelerator
from accel_runtime.state import AcceleratorState, GradientState

from ..ranks import run_ranks
from ..training import data, seed, weights


@dataclass
class Training:
    """What is trained.

    Attributes:
        loader: makes the loader.
        settings: of `Accelerator`.
        dropout: probability; on several processes dropout masks differ from those of one.
        accumulate: whether steps are in `accumulator.accumulate`.
    """

    loader: Callable[[], Any] = lambda: DataLoader(data(37), batch_size=5, shuffle=True)
    settings: dict[str, Any] = field(default_factory=dict)
    dropout: float = 0.3
    accumulate: bool = False
    epochs: int = 3

    def run(self, folder: str, stop: int | None = None, resume: bool = False) -> dict[str, Any]:
        """Train from the beginning or from the newest checkpoint; to the end, or save after `stop` batches and leave."""
        AcceleratorState._reset_state(True)
        GradientState._reset_state()
        accelerator = Accelerator(cpu=True, project_dir=folder, **{"split_batches": True, **self.settings})
        seed(11 if resume else 0)  # what a resumed run draws before it loads does not matter
        model = nn.Sequential(
            nn.Linear(6, 8, bias=False), nn.Dropout(self.dropout), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1)
        )
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
        if not resume:
            seed()
        model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, self.loader(), scheduler)
        if resume:
            accelerator.load_state()
        history: list[Any] = []
        for epoch in accelerator.epochs(self.epochs):
            for x, y in loader:
                if self.accumulate:
                    with accelerator.accumulate(model):
                        loss = self._step(accelerator, model, optimizer, scheduler, x, y)
                else:
                    loss = self._step(accelerator, model, optimizer, scheduler, x, y)
                seen = sorted(round(v, 4) for v in accelerator.gather_for_metrics(x[:, 0]).tolist())
                history.append((epoch, accelerator.global_mean(loss).item(), seen, random.random()))
                accelerator.counters["batches"] = accelerator.counters.get("batches", 0) + 1
                if accelerator.counters["batches"] == stop:
                    accelerator.save_state()
                    return {"history": history, "weights": {}}
        return {"history": history, "weights": weights(model)}

    @staticmethod
    def _step(
        accelerator: Any, model: Any, optimizer: Any, scheduler: Any, x: torch.Tensor, y: torch.Tensor
    ) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        accelerator.backward(loss)
        optimizer.step()
        scheduler.step()
        return loss


def assert_exact(training: Training, n: int, stops: list[int]) -> None:
    """Interrupted anywhere and resumed on as many processes, the training is the uninterrupted one, bit by bit."""
    with tempfile.TemporaryDirectory(prefix="resumed-") as top:

        def work() -> list[Any]:
            folders = [str(Path(top) / str(stop)) for stop in stops]
            return [
                training.run(folders[0]),
                *(
                    (training.run(folder, stop), training.run(folder, resume=True))
                    for stop, folder in zip(stops, folders, strict=True)
                ),
            ]

        ranks = run_ranks(work, n, timeout=120)
    for rank, (full, *pairs) in enumerate(ranks):
        for stop, (before, after) in zip(stops, pairs, strict=True):
            where = f"process {rank} of {n}, stopped after {stop}"
            assert before["history"] == full["history"][:stop], where
            assert after["history"] == full["history"][stop:], where
            assert all(torch.equal(full["weights"][name], after["weights"][name]) for name in full["weights"]), where


def assert_same_samples(training: Training, n: int, m: int, stop: int, tolerance: float = 1e-5) -> None:
    """Interrupted on `n` processes and resumed on `m`, the training sees the same samples, with the same losses up to rounding."""
    with tempfile.TemporaryDirectory(prefix="resumed-") as folder:
        full = run_ranks(lambda: training.run(str(Path(folder) / "full")), m, timeout=120)[0]
        run_ranks(lambda: training.run(folder, stop), n, timeout=120)
        after = run_ranks(lambda: training.run(folder, resume=True), m, timeout=120)[0]
    expected = full["history"][stop:]
    assert [(epoch, seen) for epoch, _, seen, _ in after["history"]] == [
        (epoch, seen) for epoch, _, seen, _ in expected
    ]
    for got, wanted in zip(after["history"], expected, strict=True):
        assert abs(got[1] - wanted[1]) <= tolerance * max(1.0, abs(wanted[1])), f"{got[1]} is not {wanted[1]}"
    for name, value in full["weights"].items():
        assert torch.allclose(value.float(), after["weights"][name].float(), atol=1e-4), name
