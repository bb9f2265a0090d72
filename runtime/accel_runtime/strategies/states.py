"""States of sharded models and optimizers: whole ones out of the parts, and whole ones into them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from . import sharded
from .replaced import spread_state


def whole_state(target: Any) -> dict[str, Any]:
    """`target.state_dict()` in torch's plain format on every process; all of them have to ask.

    What several names share is gathered once and stays one tensor, so that libraries which leave out copies find it.
    """
    state = target.state_dict()
    first: dict[int, str] = {}
    names = target.named_parameters(remove_duplicate=False) if isinstance(target, nn.Module) else ()
    same = {name: first.setdefault(id(p), name) for name, p in names}
    copies = {name: of for name, of in same.items() if name != of and name in state and of in state}
    made = _whole(_with_metadata(state, {name: value for name, value in state.items() if name not in copies}))
    return _with_metadata(state, {name: made[copies.get(name, name)] for name in state}) if copies else made


def accept_whole_states(model: nn.Module) -> None:
    """Let `model.load_state_dict` take plain tensors, too."""
    for module in model.modules():
        if any(sharded.is_sharded(p) for p in module._parameters.values()):
            module.register_load_state_dict_pre_hook(_spread_loaded)


def accept_whole_optimizer_states(optimizer: torch.optim.Optimizer) -> None:
    """Let `optimizer.load_state_dict` take plain tensors, too."""
    optimizer.register_load_state_dict_post_hook(_spread_loaded_by)


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        made = {key: _whole(entry) for key, entry in value.items()}
        return _with_metadata(value, made)
    if isinstance(value, (list, tuple)):
        return type(value)(_whole(entry) for entry in value)
    return sharded.whole(value)


def _with_metadata(original: dict[str, Any], made: dict[str, Any]) -> dict[str, Any]:
    if type(original) is dict:
        return made
    copied = type(original)(made)
    if hasattr(original, "_metadata"):
        copied._metadata = original._metadata  # type: ignore[attr-defined]
    return copied


def _spread_loaded(module: nn.Module, state: dict[str, Any], prefix: str, *unused: Any) -> None:
    for name, parameter in module._parameters.items():
        value = state.get(prefix + name)
        plain = isinstance(value, torch.Tensor) and not sharded.is_sharded(value)
        if sharded.is_sharded(parameter) and plain and value.shape == parameter.shape:  # of other shapes torch says what is wrong
            state[prefix + name] = sharded.like(parameter, value)


def _spread_loaded_by(optimizer: torch.optim.Optimizer) -> None:
    for parameter, state in optimizer.state.items():
        spread_state(parameter, state)
