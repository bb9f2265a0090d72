"""A training program is written once, as `program(trainer)`, and run with `Plain` (hand-written PyTorch) and with an Accelerator."""

from __future__ import annotations

import contextlib
import faulthandler
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import torch
from torch import nn
from torch.utils.data import TensorDataset

from accel_runtime.state import AcceleratorState, GradientState

from .ranks import run_ranks

Program = Callable[[Any], dict[str, Any]]


class Plain:
    """What the original script does, under the names of Accelerator."""

    num_processes = 1
    is_main_process = True
    device = torch.device("cpu")

    def prepare(self, *objects: Any) -> Any:
        return objects if len(objects) > 1 else objects[0]

    def backward(self, loss: torch.Tensor, reduction: str = "mean", weight: Any = None, **kwargs: Any) -> None:
        loss.backward(**kwargs)

    def global_mean(self, value: Any, weight: Any = None) -> Any:
        return value.detach()

    def global_sum(self, value: Any) -> Any:
        return value.detach()

    def global_len(self, value: Any) -> int:
        return value if isinstance(value, int) else len(value)

    def draw(self, factory: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return factory(*args, **kwargs)

    def shard_batch(self, batch: Any) -> Any:
        return batch

    def gather_for_metrics(self, data: Any, in_blocks: bool = False) -> Any:
        return data

    def local_rows(self, whole: Any) -> Any:
        return whole

    def gather_with_grad(self, data: Any, in_blocks: bool = False) -> Any:
        return data

    def clip_grad_norm_(self, parameters: Any, max_norm: float) -> torch.Tensor:
        return nn.utils.clip_grad_norm_(parameters, max_norm)

    def autocast(self) -> Any:
        return contextlib.nullcontext()


def plain(program: Program) -> dict[str, Any]:
    """The program by hand on one process."""
    seed()
    return _with_streams(program(Plain()))


def accelerated(program: Program, n: int, **settings: Any) -> list[dict[str, Any]]:
    """The program under an Accelerator on `n` processes, with environment variables `env`; by rank."""
    settings.setdefault("split_batches", True)
    env = settings.pop("env", None)
    return run_ranks(lambda: _accelerated_here(program, settings), n, env=env)


def _accelerated_here(program: Program, settings: dict[str, Any]) -> dict[str, Any]:
    from accel_runtime import Accelerator

    faulthandler.dump_traceback_later(40)  # where a process hangs
    AcceleratorState._reset_state(True)
    GradientState._reset_state()
    accelerator = Accelerator(cpu=True, **settings)
    seed()
    return _with_streams(program(accelerator))


def assert_same_training(program: Program, n: int, tolerance: float = 1e-5, **settings: Any) -> None:
    """`n` processes print the losses of the hand-written loop and end with its weights; one process is identical, streams included."""
    expected = plain(program)
    for rank, got in enumerate(accelerated(program, n, **settings)):
        if n == 1:
            assert_identical(got, expected)
        else:
            got.pop("streams")
            assert_close(got, {k: v for k, v in expected.items() if k != "streams"}, tolerance, f"process {rank}")


def assert_identical(got: Any, expected: Any, where: str = "") -> None:
    for path, a, b in _pairs(got, expected, where):
        if isinstance(b, torch.Tensor):
            assert torch.equal(a, b), f"{path}: {a} is not {b}"
        else:
            assert a == b, f"{path}: {a} is not {b}"


def assert_close(got: Any, expected: Any, tolerance: float = 1e-5, where: str = "") -> None:
    """Numbers agree relatively; tensors by the norm of their difference."""
    for path, a, b in _pairs(got, expected, where):
        if isinstance(b, (torch.Tensor, float)):
            a, b = torch.as_tensor(a).double(), torch.as_tensor(b).double()
            assert a.shape == b.shape, f"{path}: {tuple(a.shape)} is not {tuple(b.shape)}"
            difference, size = float((a - b).norm()), float(b.norm())
            assert difference <= tolerance * max(size, 1e-3), f"{path}: differs by {difference:.2e} of {size:.2e}"
        else:
            assert a == b, f"{path}: {a} is not {b}"


def _pairs(got: Any, expected: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(expected, dict):
        assert list(got) == list(expected), f"{path}: {list(got)} is not {list(expected)}"
        for key in expected:
            yield from _pairs(got[key], expected[key], f"{path}.{key}")
    elif isinstance(expected, (list, tuple)):
        assert len(got) == len(expected), f"{path}: {len(got)} entries, not {len(expected)}"
        for index, (a, b) in enumerate(zip(got, expected, strict=True)):
            yield from _pairs(a, b, f"{path}[{index}]")
    else:
        yield path, got, expected


def seed(value: int = 0) -> None:
    random.seed(value)
    numpy.random.seed(value)
    torch.manual_seed(value)


def _with_streams(result: dict[str, Any]) -> dict[str, Any]:
    return {**result, "streams": {"torch": torch.get_rng_state(), "python": random.random(), "numpy": float(numpy.random.rand())}}


def data(n: int, features: int = 6, seed: int = 1) -> TensorDataset:
    """`n` samples with targets which are a noisy linear function of them."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, features, generator=generator)
    return TensorDataset(x, x.sum(1, keepdim=True) + 0.1 * torch.randn(n, 1, generator=generator))


def mlp(features: int = 6, out: int = 1) -> nn.Module:
    return nn.Sequential(nn.Linear(features, 8), nn.Tanh(), nn.Linear(8, out))


def weights(model: nn.Module) -> dict[str, torch.Tensor]:
    """The whole weights; all processes have to ask."""
    return {name: _whole(value.detach()).clone() for name, value in model.state_dict().items()}


def _whole(value: torch.Tensor) -> torch.Tensor:
    return value.full_tensor() if hasattr(value, "full_tensor") else value


def fit(trainer: Any, loader: Any, epochs: int = 2, split: Callable[[Any], tuple[Any, Any]] = lambda batch: batch, model: Any = None) -> dict[str, Any]:
    """Train an MLP on `loader`; losses, samples seen per step, weights."""
    model = model or mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    model, optimizer, loader = trainer.prepare(model, optimizer, loader)
    losses, sizes = [], []
    for _ in range(epochs):
        for batch in loader:
            x, y = split(batch)
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            trainer.backward(loss)
            optimizer.step()
            losses.append(trainer.global_mean(loss).item())
            sizes.append(trainer.global_len(x))
    return {"losses": losses, "sizes": sizes, "weights": weights(model)}
