"""Gradients that wait for their optimizer step: of an accumulation window in the middle of which a checkpoint is saved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from .control import Checkpointing


def numbered_parameters(accelerator: Checkpointing) -> dict[str, torch.Tensor]:
    """This process's parameters that optimizers train, each once, by their numbers among those of all stages."""
    optimizers = accelerator.prepared_optimizers
    parameters = {id(p): p for o in optimizers for group in o.param_groups for p in group["params"]}.values()
    return {str(number): p for number, p in zip(accelerator.strategy.numbers(optimizers), parameters, strict=True)}


def pending_gradients(accelerator: Checkpointing) -> dict[str, torch.Tensor]:
    """The gradients of this process, by the number of their parameter."""
    found = numbered_parameters(accelerator).items()
    return {number: p.grad for number, p in found if p.grad is not None and p.grad.layout is torch.strided}


@torch.no_grad()
def load_gradients(accelerator: Checkpointing, parts: list[dict[str, torch.Tensor]], copies: int) -> None:
    """Set the gradients to the mean of `parts`: those of this process, or of all that there were if their number has changed.

    What is averaged over processes at the end of the window is then the same. `copies` is how many of the parts are of one stage.
    """
    if not any(parts):
        for parameter in {p for o in accelerator.prepared_optimizers for group in o.param_groups for p in group["params"]}:
            parameter.grad = None
        return
    for number, parameter in numbered_parameters(accelerator).items():
        found = [part[number] for part in parts if number in part]
        if not found:
            parameter.grad = None
            continue
        total = found[0].to(device=parameter.device, copy=True)
        for more in found[1:]:
            total += more.to(parameter.device)
        parameter.grad = total.div_(copies) if copies > 1 else total
