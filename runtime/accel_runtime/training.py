"""Backward passes whose averaged gradient is that of the global batch, and where they accumulate: methods of `Accelerator`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import nn

from . import global_values
from .kwargs import AutocastKwargs
from .parallelism_config import ParallelismConfig
from .preparing import Preparing
from .whole_batch import is_whole


class Training(Preparing):
    """What `Accelerator` does between the forward pass and the step."""

    parallelism_config: ParallelismConfig | None
    gathers_with_grad = False
    backward_scale: float | None = None
    """What the mean whose backward is running counts on this process."""

    def backward(
        self, loss: torch.Tensor, reduction: str = "mean", weight: Any = None, sync: bool = True, **kwargs: Any
    ) -> None:
        """`loss.backward(**kwargs)`, weighted so that the averaged gradient is that of the global batch's loss.

        Args:
            loss: computed from this process's rows.
            reduction: how `loss` sums up its rows, "mean" or "sum".
            weight: what a mean divided by on this process, where that is not the number of samples
                (targets that are not ignored, tokens, the sum of class weights).
            sync: False leaves the gradients local, as under `no_sync`: for all but the last backward of a window of
                gradient accumulation by hand.
            **kwargs: for `torch.Tensor.backward`.
        """
        if not sync:
            with self.no_sync():
                return self.backward(loss, reduction, weight, **kwargs)
        if reduction not in ("mean", "sum"):
            raise ValueError(f"reduction is {reduction!r}: it must be 'mean' or 'sum'")
        factor = 1.0 if self.loss_world.size == 1 else self._factor(loss, reduction, weight)
        divisor = self.accumulation.divisor
        if divisor != 1:
            self.accumulation.look_at(loss)
        if factor != 1.0 or divisor != 1:
            kwargs["gradient"] = _seed(loss, kwargs.get("gradient"), factor, divisor)
        if self.precision.scaling is not None:
            loss = self.precision.scaling.scale(loss)
        self.backward_scale = factor if reduction == "mean" else None
        try:
            if factor == 0.0:
                self._backward_at_zero(loss, kwargs)
            else:
                self.strategy.backward(loss, **kwargs)
        finally:
            self.backward_scale = None
        self.accumulation.note_backward()
        if self.accumulation.rescale != 1.0:
            self._rescale_gradients(self.accumulation.rescale)
        if self.exact and self.precision.dtype is not None:
            self.precision.warn_if_unused()

    def _factor(self, loss: torch.Tensor, reduction: str, weight: Any) -> float:
        if reduction == "sum":
            return 0.0 if self.tracker.borrowed(loss) else float(self.loss_world.size)
        if self.gathers_with_grad and weight is None and is_whole(loss, self.tracker.delivered()):
            return 1.0
        counted = global_values.scale_of(self.loss_world, self.tracker, loss, weight)
        if counted is None:
            return 1.0
        self.tracker.remember_backward(loss, counted)
        return counted.scale

    def _backward_at_zero(self, loss: torch.Tensor, kwargs: dict[str, Any]) -> None:
        self.tracker.at_zero = True
        try:
            with self.strategy.without_nan():
                self.strategy.backward(loss, **kwargs)
        finally:
            self.tracker.at_zero = False

    @torch.no_grad()
    def _rescale_gradients(self, factor: float) -> None:
        gradients = {id(p.grad): p.grad for o, _ in self._optimizers.values() for g in o.param_groups for p in g["params"] if p.grad is not None}
        for gradient in gradients.values():
            gradient.mul_(factor)

    @contextmanager
    def accumulate(self, *models: nn.Module) -> Iterator[None]:
        """One micro-batch: inside, optimizers and schedulers act only where a window of micro-batches ends."""
        with self.accumulation.micro_batch(self.strategy):
            yield

    def no_sync(self, model: nn.Module | None = None) -> AbstractContextManager[None]:
        """Inside, backwards leave gradients local; the next one outside averages what has accumulated."""
        return self.strategy.no_sync()

    def trigger_sync_in_backward(self, model: nn.Module | None = None) -> AbstractContextManager[None]:
        """Inside, backwards average gradients, even for losses that were computed within `no_sync`."""
        return self.strategy.sync()

    @property
    def torch_device_mesh(self) -> Any:
        """Torch's mesh of all processes by the sizes of `parallelism_config`; None without these. All processes must ask the first time."""
        sizes = self.parallelism_config
        return None if sizes is None else sizes.get_device_mesh(self.device.type)

    def maybe_context_parallel(
        self,
        buffers: list[torch.Tensor] | None = None,
        buffer_seq_dims: list[int] | None = None,
        no_restore_buffers: set[torch.Tensor] | None = None,
    ) -> AbstractContextManager[None]:
        """Inside, each process of a group has a part of every sequence, and attention sees all of it; nothing without `cp_size`.

        The model and the loss are called inside, and so is `backward` if the buffers are to be whole again afterwards.

        Args:
            buffers: the batch's tensors with one entry per token (tokens, targets, position ids): they are cut in place.
            buffer_seq_dims: the dimension of the sequence in each of them.
            no_restore_buffers: those of them that may stay cut.

        Raises:
            ValueError: unequal lengths, or one that is no multiple of twice `cp_size`.
        """
        sequences = self.strategy.sequences
        if sequences is None:
            return nullcontext()
        return sequences.shared(buffers or [], buffer_seq_dims or [], no_restore_buffers or set())

    def autocast(self, autocast_handler: AutocastKwargs | None = None) -> AbstractContextManager[Any]:
        """The region whose operations run in the chosen precision."""
        return self.precision.autocast(autocast_handler.to_kwargs() if autocast_handler is not None else None)


def _seed(loss: torch.Tensor, given: torch.Tensor | None, factor: float, divisor: int) -> torch.Tensor | None:
    """The gradient with which the backward starts: no node is added to the graph."""
    if given is None and loss.numel() != 1:
        return None  # torch's own error
    seed = torch.ones_like(loss, requires_grad=False) if given is None else given.clone()
    if divisor != 1:
        seed.div_(divisor)
    return seed if factor == 1.0 else seed.mul_(factor)
