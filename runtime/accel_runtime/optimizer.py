"""Optimizers in place: `step` and `zero_grad` of the very object, replaced only where they have to differ."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.optim import Optimizer

if TYPE_CHECKING:
    from .accelerator import Accelerator


class OptimizerHooks:
    """What surrounds the `step` and `zero_grad` of one prepared optimizer."""

    def __init__(self, accelerator: Accelerator, optimizer: Optimizer) -> None:
        self.accelerator = accelerator
        self.optimizer = optimizer
        self.plain_step: Callable[..., Any] = optimizer.step
        self.plain_zero_grad: Callable[..., Any] = optimizer.zero_grad
        self.step_was_skipped = False
        self._in_scaler = False
        self._stepped = False
        self._unscaled = False
        self._parameters = _count(optimizer)

    def step(self, optimizer: Optimizer, closure: Callable[[], Any] | None = None) -> Any:
        """Step at the end of a window; through the scaler where there is one; a closure returns the global loss."""
        if self._in_scaler:
            self._stepped = not float(getattr(optimizer, "found_inf", 0.0))  # a fused kernel looks for itself
            return self.plain_step()
        accumulation = self.accelerator.accumulation
        if not accumulation.may_step():
            return None
        if _count(optimizer) != self._parameters:
            self._adopt_new_parameters(optimizer)
        result = self._step(optimizer, closure)
        accumulation.stepped.add(id(self))
        return result

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients, but never micro-batches of an open window."""
        if self.accelerator.accumulation.may_zero(id(self)):
            self.plain_zero_grad(set_to_none)

    def unscale(self) -> None:
        """Divide the gradients by the scaler's factor, unless that is done already."""
        scaler = self.accelerator.precision.scaling
        if not self._unscaled and scaler is not None:
            scaler.begin(self.optimizer)
            scaler.unscale_(self.optimizer)
            self._unscaled = True

    def _step(self, optimizer: Optimizer, closure: Callable[[], Any] | None) -> Any:
        scaler = self.accelerator.precision.scaling
        if scaler is None:
            return self.plain_step() if closure is None else self.plain_step(self._global(closure))
        if closure is not None:
            raise ValueError("mixed_precision='fp16' scales the loss and cannot step with a closure: use 'bf16' or 'no', or an optimizer without one")
        self._in_scaler, self._stepped = True, False
        try:
            scaler.step(optimizer)
        finally:
            self._in_scaler = self._unscaled = False
        self.step_was_skipped = not self._stepped

    def _global(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        def global_closure() -> Any:
            with torch.enable_grad():
                loss = closure()
            return self.accelerator.global_mean(loss) if isinstance(loss, torch.Tensor) else loss

        return global_closure

    def _adopt_new_parameters(self, optimizer: Optimizer) -> None:
        self.accelerator.strategy.prepare_optimizer(optimizer)
        self._parameters = _count(optimizer)


def install(accelerator: Accelerator, optimizer: Optimizer) -> OptimizerHooks:
    """Replace `step` and `zero_grad` on the instance; copies and pickles of the optimizer do not carry them."""
    hooks = OptimizerHooks(accelerator, optimizer)

    def step(self: Optimizer, closure: Callable[[], Any] | None = None) -> Any:
        return hooks.step(self, closure)

    def zero_grad(self: Optimizer, set_to_none: bool = True) -> None:
        hooks.zero_grad(set_to_none)

    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer.step = types.MethodType(step, optimizer)  # type: ignore[method-assign]
    optimizer.zero_grad = types.MethodType(zero_grad, optimizer)  # type: ignore[method-assign]
    return hooks


def move_state(optimizer: Optimizer) -> None:
    """Put state made or loaded before `prepare` where the parameters are now."""
    if any(isinstance(v, torch.Tensor) and v.ndim and v.device != p.device for p, state in optimizer.state.items() for v in state.values()):
        optimizer.load_state_dict(optimizer.state_dict())


def _count(optimizer: Optimizer) -> int:
    count = 0
    for group in optimizer.param_groups:
        count += len(group["params"])
    return count
