"""Modules whose weights are brought in for each forward pass, and dropped after it."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from ..nested import send_to_device

_placed: weakref.WeakKeyDictionary[nn.Module, Placed] = weakref.WeakKeyDictionary()


class Placed:
    """What was done to one module.

    Args:
        module: whose own tensors are meant, not those of modules inside.
        device: where its forward pass is computed; its inputs go there.
        weights: its parameters by full name, where these stay elsewhere; None: they are on the device.
        names: own name -> full name, of the tensors that are brought in.
        blanks: what stands for them meanwhile, by full name: one for all modules that share a weight.
    """

    def __init__(
        self,
        module: nn.Module,
        device: torch.device,
        weights: Mapping[str, torch.Tensor] | None,
        names: dict[str, str],
        blanks: dict[str, torch.Tensor],
    ) -> None:
        self.device = device
        self.weights = weights
        self.names = names
        self.blanks = blanks
        self.handles = [
            module.register_forward_pre_hook(self._before, with_kwargs=True),
            module.register_forward_hook(self._after, always_call=True),
        ]
        if weights is not None:
            self._leave(module)
        _placed[module] = self

    def _before(self, module: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        for own, full in self.names.items():
            assert self.weights is not None
            put(module, own, self.weights[full].to(self.device), trains=False)
        return send_to_device(arguments, self.device), send_to_device(keywords, self.device)

    def _after(self, module: nn.Module, _arguments: Any, _output: Any) -> None:
        self._leave(module)

    def _leave(self, module: nn.Module) -> None:
        for own, full in self.names.items():
            known = getattr(module, own)
            if full not in self.blanks:
                blank = torch.empty_like(known, device="meta")
                trains = known.requires_grad
                self.blanks[full] = (
                    nn.Parameter(blank, requires_grad=trains) if isinstance(known, nn.Parameter) else blank
                )
            (module._parameters if own in module._parameters else module._buffers)[own] = self.blanks[full]  # type: ignore[index]


def put(module: nn.Module, name: str, value: torch.Tensor, trains: bool) -> None:
    """Replace a parameter or a buffer of `module` by `value`."""
    if name in module._parameters:
        module._parameters[name] = nn.Parameter(value, requires_grad=trains)
    else:
        module._buffers[name] = value


def release(model: nn.Module) -> None:
    """Take the hooks away; weights that are elsewhere stay there, and "meta" here."""
    for module in model.modules():
        placed = _placed.pop(module, None)
        for handle in placed.handles if placed is not None else ():
            handle.remove()


def with_offloaded(model: nn.Module, state: dict[str, Any]) -> dict[str, Any]:
    """`state`, a state dict of `model`, with the weights that are elsewhere."""
    found = {}
    for prefix, module in model.named_modules():
        placed = _placed.get(module)
        for own, full in placed.names.items() if placed is not None and placed.weights is not None else ():
            found[f"{prefix}.{own}" if prefix else own] = placed.weights[full]
    return {name: found.get(name, value) for name, value in state.items()}
