"""Gradients that a process does not have: under `fully_shard` all processes of a unit must reduce the same ones.

A process sends zeros for a parameter that its backward did not reach. Whether any process had a gradient is asked once at the
end of each backward; where none had, it stays None, so that optimizers leave the parameter alone as on one process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.autograd import Variable


class RollCall:
    """The roll call of one sharded model; `groups` are the parameter groups of its units (torch's `FSDPParamGroup`)."""

    def __init__(self, groups: list[Any], device: torch.device) -> None:
        self.device = device
        self.parameters = [parameter for group in groups for parameter in group.fsdp_params]
        self._backward = -1
        self._produced: set[int] = set()
        self._absent: set[int] = set()
        self._message: torch.Tensor | None = None
        for group in groups:
            group.post_backward = self._answering(group, group.post_backward)

    def _answering(self, group: Any, post_backward: Callable[..., None]) -> Callable[..., None]:
        def answer(*unused: Any) -> None:
            if group.reduce_grads:
                self._note(group)
            post_backward(*unused)

        return answer

    def _note(self, group: Any) -> None:
        """Called when the gradients of `group` are complete and about to be reduced."""
        if torch.is_grad_enabled():
            raise RuntimeError(
                "create_graph=True under fully sharded data parallelism: second-order gradients need the whole weights, "
                "which are let go after each backward; train this model data parallel"
            )
        if self._backward != torch._C._current_graph_task_id():
            self._backward = torch._C._current_graph_task_id()
            self._produced.clear()
            self._absent.clear()
            Variable._execution_engine.queue_callback(self._end)
        for parameter in group.fsdp_params:
            unsharded = getattr(parameter, "_unsharded_param", None)
            if unsharded is None or not unsharded.requires_grad:
                continue
            if unsharded.grad is not None or parameter.unsharded_accumulated_grad is not None:
                self._produced.add(id(parameter))
                continue
            if parameter.sharded_param.grad is None:
                self._absent.add(id(parameter))
            unsharded.grad = torch.zeros_like(unsharded)

    def _end(self) -> None:
        """Called by autograd when the backward is complete."""
        self._backward = -1
        message = torch.tensor([id(p) in self._produced for p in self.parameters], dtype=torch.uint8)
        message = message.to(self.device, non_blocking=True)
        dist.all_reduce(message, dist.ReduceOp.MAX)
        if not self._absent - self._produced:
            return
        for parameter, produced in zip(self.parameters, message.tolist(), strict=True):
            if not produced and id(parameter) in self._absent:
                parameter.sharded_param.grad = None
