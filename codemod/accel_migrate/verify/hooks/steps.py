"""Losses, learning rates, gradients and weights at every optimizer step."""

from __future__ import annotations

import functools
import weakref
import zlib
from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from accel_migrate.verify.hooks import batches, state

if TYPE_CHECKING:
    from accel_migrate.verify.hooks.tracing import Recorder


_STEPS_WITH_STREAM = 3


class Steps:
    """Of one process; `losses` are those of the backwards since the last step, with the gradients that they started with."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.losses: list[tuple[Any, Any]] = []
        self.rates: list[float] = []
        self.zeroed = 0
        self.scaled: tuple[weakref.ref[Any], float] | None = None

    def note_backward(self, tensors: Any, gradients: Any) -> None:
        roots = tensors if isinstance(tensors, (list, tuple)) else [tensors]
        seeds = gradients if isinstance(gradients, (list, tuple)) else [gradients]
        for root, seed in zip(roots, [*seeds, *[None] * len(roots)]):  # noqa: B905
            value = root.detach()
            if self.scaled is not None and self.scaled[0]() is root:
                value = value / self.scaled[1]
            self.losses.append((value, seed))
        batches.note_training()

    def before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self.rates = [float(group["lr"]) for group in optimizer.param_groups if "lr" in group]

    def after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        loss = sum(weighted(root, seed) for root, seed in self.losses)
        count = len(self.losses)
        self.losses.clear()
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self.recorder.note_step(
            step=state.number_of(optimizer),
            loss=loss,
            backwards=count,
            zeroed=self.zeroed,
            lr=self.rates,
            norms=norms([*(p.grad for p in parameters), *parameters]),
            random=_stream() if self.recorder.steps < _STEPS_WITH_STREAM else 0,
        )
        self.zeroed = 0

    def note_zero(self) -> None:
        self.zeroed += 1


def trace(recorder: Recorder) -> Steps:
    """Hook `torch.autograd.backward`, through which `Tensor.backward` goes too, and every optimizer's step."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    steps = Steps(recorder)
    plain = torch.autograd.backward

    def backward(tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> None:
        steps.note_backward(tensors, grad_tensors)
        plain(tensors, grad_tensors, *args, **kwargs)

    torch.autograd.backward = backward
    for kind in (torch.optim.Optimizer, torch.nn.Module):
        _before(kind, "zero_grad", steps.note_zero)
    _watch_scaler(steps)
    register_optimizer_step_pre_hook(steps.before_step)
    register_optimizer_step_post_hook(steps.after_step)
    return steps


def _before(kind: Any, name: str, first: Callable[[], None]) -> None:
    plain = getattr(kind, name)

    @functools.wraps(plain)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        first()
        return plain(self, *args, **kwargs)

    setattr(kind, name, call)


def _watch_scaler(steps: Steps) -> None:
    """A loss that was scaled against underflow counts as it was before: the gradients are unscaled before a step."""
    import torch

    plain = torch.amp.GradScaler.scale

    def scale(self: Any, outputs: Any) -> Any:
        scaled = plain(self, outputs)
        if isinstance(scaled, torch.Tensor) and scaled is not outputs:
            steps.scaled = weakref.ref(scaled), float(self.get_scale())
        return scaled

    torch.amp.GradScaler.scale = scale  # type: ignore[method-assign]


def _stream() -> int:
    """Tells states of torch's random stream apart."""
    import torch

    return zlib.crc32(torch.get_rng_state().numpy())


def weighted(root: Any, seed: Any) -> float:
    """The loss times the gradient it starts with; at weight zero it counts nothing, not even if it is NaN."""
    if seed is None and root.ndim == 0:
        return float(root)
    return float((root if seed is None else (root * seed).masked_fill(seed == 0, 0)).sum())


def norms(tensors: list[Any]) -> array[float]:
    """Euclidean norm of each tensor; -1 where there is none."""
    import torch

    present = [t for t in tensors if t is not None]
    if not present:
        return array("d", [-1.0] * len(tensors))
    with torch.no_grad():
        try:
            values = torch.stack(torch._foreach_norm(present)).tolist()
        except (RuntimeError, NotImplementedError):  # sparse ones, or of several types or devices
            values = [float(torch.linalg.vector_norm(t.coalesce().values() if t.is_sparse else t)) for t in present]
    if len(present) < len(tensors):
        found = iter(values)
        values = [-1.0 if t is None else next(found) for t in tensors]
    return array("d", values)
