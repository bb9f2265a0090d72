"""Gradient accumulation: when a window of micro-batches ends, how long it is, and what its last step may forget."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from .batches import Tracker
from .deepspeed_plugin import DeepSpeedPlugin
from .kwargs import GradientAccumulationPlugin, default_accumulation_steps
from .passes import Run
from .state import GradientState
from .strategies import Strategy


class Accumulation:
    """The window in progress.

    Attributes:
        pending: micro-batches whose gradients wait for the window's step.
        inside: whether an `accumulate` block is open.
        divisor: micro-batches in the present window, by which each loss is divided.
        rescale: what the gradients must be multiplied by where a window turned out shorter than its divisor.
        stepped: optimizers that have used the pending gradients.
        unstepped: whether a backward has run since the last optimizer step, in a window or not.
    """

    def __init__(self, tracker: Tracker, state: GradientState, exact: bool) -> None:
        self.tracker = tracker
        self.exact = exact
        self.state = state
        self.pending = 0
        self.inside = False
        self.rescale = 1.0
        self.stepped: set[int] = set()
        self._length: int | None = None
        self._position = 0
        self._run: Run | None = None
        self._resumed = 0
        self._looked_at = False
        self.unstepped = False

    @property
    def steps(self) -> int:
        """Micro-batches per window."""
        return self.state.num_steps

    @property
    def sync(self) -> bool:
        """Whether the present micro-batch ends its window."""
        return self.state.sync_gradients

    @property
    def divisor(self) -> int:
        return self._length if self.inside and self._length is not None else self.steps

    def looks_ahead(self) -> bool:
        """Whether a loader of unknown length has to find out if the batch it delivers is its last."""
        return self.steps > 1 and self.state.sync_with_dataloader

    @contextmanager
    def micro_batch(self, strategy: Strategy) -> Iterator[None]:
        """One micro-batch; gradients are reduced only in the last one of a window."""
        self._enter()
        try:
            if self.sync or self.state.plugin_kwargs.get("sync_each_batch", False):
                yield
            else:
                with strategy.no_sync():
                    yield
        finally:
            self.inside = False
            if self.sync:
                self.pending = 0
                self.stepped.clear()

    def look_at(self, loss: torch.Tensor) -> None:
        """Say once if a loss that this window divides has been divided by the same number in the script."""
        if self._looked_at:
            return
        self._looked_at = True
        if _last_factor(loss) in (self.steps, 1 / self.steps):
            warnings.warn(
                f"the loss was divided by {self.steps} before backward(), which divides it by the {self.steps} micro-batches of a window, too: "
                "if that was meant for accumulation, leave it out",
                stacklevel=3,
            )

    def note_step(self, *_: Any) -> None:
        self.unstepped = False

    def note_backward(self) -> None:
        self.unstepped = self.tracker.trained = True
        for run in self.tracker.runs:
            if run.lead is None:
                run.lead = run.count - run.begun - 1
        if self.inside:
            self.pending += 1

    def may_step(self) -> bool:
        """Whether an optimizer steps now; in the body of a loop a step waits for the window's end, inside `accumulate` or not."""
        return self.sync or not (self.inside or self.state.in_dataloader)

    def may_zero(self, optimizer_id: int) -> bool:
        """Whether gradients may be cleared: nothing is pending, or this optimizer has used what was."""
        return self.pending == 0 or optimizer_id in self.stepped

    def window_state(self) -> dict[str, Any]:
        """Where in its window the training is, for a checkpoint."""
        over = self.inside and self.sync
        return {"position": self._position, "pending": 0 if over else self.pending, "sync": self.sync}

    def load_window_state(self, state: dict[str, Any]) -> None:
        """Go on in the middle of a window."""
        self._position = self._resumed = state["position"]
        self.pending = state["pending"]
        self.stepped.clear()
        self.state._set_sync_gradients(state["sync"])

    def _enter(self) -> None:
        by_loader = self.state.sync_with_dataloader
        loader = self.state.active_dataloader if by_loader else None
        if by_loader and self.tracker.run is not self._run:
            self._run, self._position, self._resumed = self.tracker.run, self._resumed, 0
        at = self._position % self.steps
        ends = loader is not None and loader.end_of_dataloader
        left = None if loader is None else getattr(loader, "batches_left", None)
        if self.exact:  # per process, as in Accelerate, a shorter last window is divided by `steps` too
            self._length = self.steps if left is None else min(self.steps, at + left + 1)
            self.rescale = self.steps / (at + 1) if ends and left is None else 1.0
        self.inside = True
        self._position = 0 if ends else self._position + 1
        self.state._set_sync_gradients(ends or at + 1 == self.steps)


def asked_steps(steps: int, deepspeed: DeepSpeedPlugin | None) -> int:
    """Micro-batches per optimizer step, as `Accelerator` or the settings of DeepSpeed say.

    Raises:
        ValueError: they contradict each other.
    """
    own = deepspeed.steps if deepspeed is not None else None
    if own is not None and steps not in (1, own):
        raise ValueError(f"gradient_accumulation_steps is {steps}, and {own} in the DeepSpeed configuration: give one of them")
    return steps if own is None else own


def plugin_for(plugin: GradientAccumulationPlugin | None, steps: int) -> GradientAccumulationPlugin:
    """The settings of accumulation: `plugin`, or those for windows of `steps` micro-batches.

    Raises:
        ValueError: both are given and contradict each other.
    """
    if plugin is None:
        return GradientAccumulationPlugin(num_steps=default_accumulation_steps() if steps == 1 else steps)
    if steps != 1 and plugin.num_steps not in (None, steps):
        raise ValueError(f"gradient_accumulation_steps is {steps} and the plugin's num_steps {plugin.num_steps}: give one of them")
    return GradientAccumulationPlugin(**{**vars(plugin), "num_steps": plugin.num_steps or steps})


def _last_factor(loss: torch.Tensor) -> float | None:
    """The number by which the last operation divided, or multiplied, `loss`; None for other operations."""
    node: Any = loss.grad_fn
    if node is None or type(node).__name__ not in ("DivBackward0", "MulBackward0"):
        return None
    try:
        other = node._saved_other
    except RuntimeError:  # an earlier backward has let go of it
        return None
    return other.item() if other is not None and other.numel() == 1 and other.device.type == "cpu" and not other.requires_grad else None
