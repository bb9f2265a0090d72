"""Losses, learning rates, gradients and weights at every optimizer step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accel_migrate.verify.hooks import batches, state

if TYPE_CHECKING:
    from accel_migrate.verify.hooks.tracing import Recorder


class _Steps:
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.losses: list[tuple[Any, Any]] = []
        self.before: tuple[list[float], list[float]] = [], []

    def note_backward(self, tensors: Any, gradients: Any) -> None:
        roots = tensors if isinstance(tensors, (list, tuple)) else [tensors]
        seeds = gradients if isinstance(gradients, (list, tuple)) else [gradients]
        for root, seed in zip(roots, [*seeds, *[None] * len(roots)]):  # noqa: B905
            self.losses.append((root.detach(), seed))
        batches.note_training()

    def before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        parameters = _parameters(optimizer)
        rates = [float(group["lr"]) for group in optimizer.param_groups if "lr" in group]
        self.before = rates, norms([p.grad for p in parameters])

    def after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        rates, gradients = self.before
        loss = sum(float((root if seed is None else root * seed).sum()) for root, seed in self.losses)
        count = len(self.losses)
        self.losses.clear()
        self.recorder.note_step(
            step=state.number_of(optimizer),
            loss=loss,
            backwards=count,
            lr=rates,
            gradients=gradients,
            weights=norms(_parameters(optimizer)),
        )


def trace(recorder: Recorder) -> None:
    """Hook `torch.autograd.backward`, through which `Tensor.backward` goes too, and every optimizer's step."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    steps = _Steps(recorder)
    plain = torch.autograd.backward

    def backward(tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> None:
        steps.note_backward(tensors, grad_tensors)
        plain(tensors, grad_tensors, *args, **kwargs)

    torch.autograd.backward = backward
    register_optimizer_step_pre_hook(steps.before_step)
    register_optimizer_step_post_hook(steps.after_step)


def _parameters(optimizer: Any) -> list[Any]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def norms(tensors: list[Any]) -> list[float]:
    """Euclidean norm of each tensor; -1 where there is none."""
    import torch

    dense = [t.detach().coalesce().values() if t is not None and t.is_sparse else t for t in tensors]
    present = [t.detach() for t in dense if t is not None]
    if not present:
        return [-1.0] * len(tensors)
    with torch.no_grad():
        measured = torch._foreach_norm(present)
    values = iter(torch.stack([m.to(measured[0].device, torch.float64) for m in measured]).tolist())
    return [next(values) if t is not None else -1.0 for t in dense]
