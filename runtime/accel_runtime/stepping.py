"""What belongs to an optimizer step: clipping, the scaler, the window of micro-batches; methods of `Accelerator`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from . import scheduler
from .accumulation import plugin_for
from .optimizer import install
from .preparing import Preparing
from .state import GradientState


class Stepping(Preparing):
    """What `Accelerator` does around `optimizer.step()`."""

    gradient_state: GradientState

    def clip_grad_norm_(self, parameters: Any, max_norm: float, norm_type: float = 2.0) -> torch.Tensor:
        """Scale gradients down to `max_norm` at the end of a window; always returns the norm before."""
        parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        if not self.accumulation.may_step():
            norm = self.strategy.clip_grad_norm(parameters, float("inf"), norm_type)
            return norm if self.precision.scaling is None else norm / self.precision.scaling.get_scale()
        self._unscale_owners(parameters)
        return self.strategy.clip_grad_norm(parameters, max_norm, norm_type)

    def clip_grad_value_(self, parameters: Any, clip_value: float) -> None:
        """Clamp gradients to `[-clip_value, clip_value]` at the end of a window."""
        parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        if self.accumulation.may_step():
            self._unscale_owners(parameters)
            self.strategy.clip_grad_value(parameters, clip_value)

    def unscale_gradients(self, optimizer: Any = None) -> None:
        """Divide gradients by the scaler's factor, once per step; `optimizer` is one, several, or None for all."""
        wanted = None if optimizer is None else {id(o) for o in (optimizer if isinstance(optimizer, (list, tuple)) else [optimizer])}
        for key, (_, hooks) in self._optimizers.items():
            if hooks is not None and (wanted is None or key in wanted):
                hooks.unscale()

    def _unscale_owners(self, parameters: Iterable[torch.Tensor]) -> None:
        if self.precision.scaling is None:
            return
        given = {id(p) for p in parameters}
        for optimizer, hooks in self._optimizers.values():
            if hooks is not None and any(id(p) in given for group in optimizer.param_groups for p in group["params"]):
                hooks.unscale()

    @property
    def scaler(self) -> Any:
        """The gradient scaler of fp16 (a disabled one on a host without a GPU), else None."""
        return self.precision.scaler

    @property
    def sync_gradients(self) -> bool:
        """Whether the present micro-batch ends its window."""
        return self.gradient_state.sync_gradients

    @sync_gradients.setter
    def sync_gradients(self, value: bool) -> None:
        self.gradient_state._set_sync_gradients(value)

    @property
    def gradient_accumulation_steps(self) -> int:
        """Micro-batches per optimizer step."""
        return self.gradient_state.num_steps

    @gradient_accumulation_steps.setter
    def gradient_accumulation_steps(self, steps: int) -> None:
        self.gradient_state.plugin_kwargs.update(plugin_for(None, steps).to_kwargs() or {"num_steps": 1})
        if self._steps_differ:
            self._install_late()

    def _install_late(self) -> None:
        for key, (optimizer, hooks) in list(self._optimizers.items()):
            if hooks is None:
                self._optimizers[key] = (optimizer, install(self, optimizer))
        for prepared in self._schedulers:
            scheduler.install(self, prepared)

    @property
    def adjust_scheduler(self) -> bool:
        return self.gradient_state.adjust_scheduler

    @property
    def optimizer_step_was_skipped(self) -> bool:
        """Whether the last step of some optimizer was skipped because gradients overflowed."""
        return any(hooks is not None and hooks.step_was_skipped for _, hooks in self._optimizers.values())
