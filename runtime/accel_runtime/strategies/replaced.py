"""Parameters that sharding has replaced, and the optimizers that were made with the old ones."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from . import sharded
from .units import owners


class Replaced:
    """Old parameters, as long as something holds them, and what has taken their places."""

    def __init__(self) -> None:
        self._new: dict[int, tuple[weakref.ref[torch.Tensor], torch.Tensor]] = {}
        self._handle: Any = None

    @contextlib.contextmanager
    def following(self, module: nn.Module, within: list[nn.Module]) -> Iterator[None]:
        """Inside, parameters of `module` are replaced."""
        before = [
            (holder, name, tensor)
            for holder, name, tensor in owners(module, within)
            if isinstance(tensor, nn.Parameter)
        ]
        yield
        for holder, name, old in before:
            new = holder._parameters[name]
            if new is not old and new is not None:
                self.note(old, new)

    def note(self, old: torch.Tensor, new: torch.Tensor) -> None:
        self._new[id(old)] = (weakref.ref(old), new)
        if self._handle is None:
            self._handle = register_optimizer_step_pre_hook(self._check)

    def update(self, optimizer: torch.optim.Optimizer) -> None:
        """Let `optimizer` hold the new parameters, and its state be spread like them."""
        for group in optimizer.param_groups:
            group["params"][:] = [self._now(parameter) for parameter in group["params"]]
        states = [(self._now(parameter), state) for parameter, state in optimizer.state.items()]
        optimizer.state.clear()
        for parameter, state in states:
            spread_state(parameter, state)
            optimizer.state[parameter] = state

    def clear(self) -> None:
        self._new.clear()
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def _now(self, parameter: torch.Tensor) -> torch.Tensor:
        new = self._successor(parameter) if isinstance(parameter, torch.Tensor) else None
        return parameter if new is None else new

    def _successor(self, old: torch.Tensor) -> torch.Tensor | None:
        found = self._new.get(id(old))
        if found is None or found[0]() is not old:
            return None
        further = self._successor(found[1])
        return found[1] if further is None else further

    def _check(self, optimizer: torch.optim.Optimizer, *unused: Any) -> None:
        if any(self._successor(p) is not None for group in optimizer.param_groups for p in group["params"]):
            raise RuntimeError(
                f"this {type(optimizer).__name__} was made before the model was sharded and holds weights that are no longer trained: "
                "hand it to accelerator.prepare(model, optimizer), or make it afterwards"
            )


def spread_state(parameter: torch.Tensor, state: dict[str, Any]) -> None:
    """Shard what an optimizer remembers of each element of `parameter` (momentum and kin), as `parameter` is."""
    if not sharded.is_sharded(parameter):
        return
    for key, value in state.items():
        if isinstance(value, torch.Tensor) and not sharded.is_sharded(value) and value.shape == parameter.shape:
            state[key] = sharded.like(parameter, value)
