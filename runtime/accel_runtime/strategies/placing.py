"""Bringing weights to the device, those of the meta device too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import nn

from .units import owners


def move(model: nn.Module, device: torch.device) -> nn.Module:
    """`model.to(device)`; weights on the meta device are initialised there."""
    if any(tensor.is_meta for tensor in _tensors(model)):
        initialise(model, device)
    return model.to(device)


def initialise(
    model: nn.Module,
    device: torch.device,
    init: Callable[[nn.Module], None] | None = None,
    within: Iterable[nn.Module] = (),
) -> None:
    """Give the meta weights of `model` memory and their initial values, by `init` or the modules' `reset_parameters`.

    Args:
        within: modules inside `model` that are left out.

    Raises:
        ValueError: a module with meta weights has no `reset_parameters`.
    """
    empty = [module for module in _holders(model, within) if any(t.is_meta for t in _own(module))]
    for module in empty:
        if (
            init is None
            and not hasattr(module, "reset_parameters")
            and any(p.is_meta for p in module.parameters(recurse=False))
        ):
            raise ValueError(
                f"{type(module).__name__} has weights on the meta device and no reset_parameters(): "
                "make the model with its weights on the main process, or give FullyShardedDataParallelPlugin(param_init_fn=...)"
            )
    allocate(model, device, within)
    for module in empty:
        if init is not None:
            init(module)
        elif hasattr(module, "reset_parameters"):
            module.reset_parameters()


def allocate(module: nn.Module, device: torch.device, within: Iterable[nn.Module] = ()) -> None:
    """Put uninitialised memory where `module` has weights or buffers on the meta device."""
    for _, _, tensor in list(owners(module, within)):
        if tensor.is_meta:
            fresh = torch.empty_like(tensor, device=device)
            fresh = nn.Parameter(fresh, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else fresh
            torch.utils.swap_tensors(tensor, fresh)  # optimizers and other holders keep the very object


def _tensors(model: nn.Module) -> Iterator[torch.Tensor]:
    yield from model.parameters()
    yield from model.buffers()


def _own(module: nn.Module) -> Iterator[torch.Tensor]:
    yield from module.parameters(recurse=False)
    yield from module.buffers(recurse=False)


def _holders(model: nn.Module, within: Iterable[nn.Module]) -> list[nn.Module]:
    hidden = {inner for other in within for inner in other.modules()}
    return [module for module in model.modules() if module not in hidden]
