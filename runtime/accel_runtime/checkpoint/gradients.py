"""Gradients that wait for their optimizer step: of an accumulation window in the middle of which a checkpoint is saved."""

from __future__ import annotations

from typing import Any

import torch


def parameters_of(optimizers: list[Any]) -> list[torch.Tensor]:
    """All parameters of the optimizers, each once, in their order."""
    return list({id(p): p for o in optimizers for group in o.param_groups for p in group["params"]}.values())


def pending_gradients(optimizers: list[Any]) -> dict[str, torch.Tensor]:
    """The gradients of this process, by the number of their parameter."""
    return {
        str(i): p.grad
        for i, p in enumerate(parameters_of(optimizers))
        if p.grad is not None and p.grad.layout is torch.strided
    }


@torch.no_grad()
def load_gradients(optimizers: list[Any], parts: list[dict[str, torch.Tensor]]) -> None:
    """Set the gradients to the mean of `parts`: those of this process, or of all that there were if their number has changed.

    What is averaged over processes at the end of the window is then the same.
    """
    for i, parameter in enumerate(parameters_of(optimizers)):
        found = [part[str(i)] for part in parts if str(i) in part]
        if not found:
            parameter.grad = None
            continue
        total = found[0].to(device=parameter.device, copy=True)
        for more in found[1:]:
            total += more.to(parameter.device)
        parameter.grad = total.div_(len(parts)) if len(parts) > 1 else total
