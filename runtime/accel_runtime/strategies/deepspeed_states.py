"""Whole states, in torch's plain format, of models and optimizers whose parts DeepSpeed has spread over the processes."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from .deepspeed import Engine


def reached(loss: torch.Tensor) -> set[int]:
    """The identities of the parameters from which `loss` was computed."""
    found: set[int] = set()
    seen: set[Any] = set()
    waiting = [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.add(id(node.variable))
        waiting.extend(following for following, _ in node.next_functions)
    return found


@torch.no_grad()
def gradient_norm(zero: Any) -> torch.Tensor:
    """The norm over all processes of the gradients that wait for the step."""
    if hasattr(zero, "scaled_global_norm"):
        norm = zero.scaled_global_norm()
    else:
        norm = torch.linalg.vector_norm(
            torch.stack([torch.as_tensor(part, dtype=torch.float32) for part in zero._get_norm_groups()])
        )
    return torch.as_tensor(norm, dtype=torch.float32) / zero.loss_scale


def model_state(model: nn.Module) -> dict[str, Any]:
    """The weights; sharded ones are gathered one by one, on every process."""
    state = model.state_dict()
    sharded = {name: p for name, p in model.named_parameters(remove_duplicate=False) if hasattr(p, "ds_id")}
    for name, parameter in sharded.items():
        with _gathered(parameter):
            state[name] = parameter.detach().clone()
    return state


@torch.no_grad()
def load_model(engine: Engine, state: dict[str, Any], strict: bool = True) -> Any:
    """Load whole weights, and let the master copies follow."""
    model = engine.model
    sharded = {name: p for name, p in model.named_parameters(remove_duplicate=False) if hasattr(p, "ds_id")}
    if not sharded:
        result = type(model).load_state_dict(model, state, strict=strict)
        engine.zero.refresh_fp32_params()
        return result
    given = {
        **state,
        **{name: model.get_parameter(name) for name in sharded if name in state},
    }  # of no length: they stay
    result = type(model).load_state_dict(model, given, strict=strict)
    for name, parameter in sharded.items():
        if name in state:
            _check_shape(name, state[name].shape, parameter.ds_shape)
            with _gathered(parameter, writer=0):
                parameter.copy_(state[name])
            _set_master(engine, parameter, state[name])
    return result


def optimizer_state(engine: Engine) -> dict[str, Any]:
    """Torch's integer-keyed format, with the parameters in the order of the script's optimizer."""
    names, scalars = _kinds(engine)
    numbers = itertools.count()
    state: dict[int, dict[str, Any]] = {}
    groups = []
    for group, parameters in zip(engine.script_optimizer.param_groups, engine.groups, strict=True):
        indices = [next(numbers) for _ in parameters]
        groups.append({key: value for key, value in group.items() if key != "params"} | {"params": indices})
        for index, parameter in zip(indices, parameters, strict=True):
            values = {name: _full("safe_get_full_optimizer_state")(parameter, name) for name in names}
            if any(value is not None for value in values.values()):
                state[index] = dict(scalars) | {
                    name: value.detach().clone().view(_shape(parameter)) for name, value in values.items()
                }
    return {"state": state, "param_groups": groups}


@torch.no_grad()
def load_optimizer(engine: Engine, state: dict[str, Any]) -> None:
    """Load a whole state in torch's plain format.

    Raises:
        ValueError: it has other numbers of parameters.
    """
    given = [len(group["params"]) for group in state["param_groups"]]
    if given != (own := [len(group) for group in engine.groups]):
        raise ValueError(
            f"loaded state dict contains parameter groups of the sizes {given}, and the optimizer's are {own}"
        )
    for group, saved in zip(engine.script_optimizer.param_groups, state["param_groups"], strict=True):
        group.update({key: value for key, value in saved.items() if key != "params"})
    _make_room(engine, state["state"])
    order = [index for group in state["param_groups"] for index in group["params"]]
    for index, parameter in zip(order, engine.parameters, strict=True):
        for name, value in state["state"].get(index, {}).items():
            if isinstance(value, torch.Tensor) and value.ndim:
                _set_master(engine, parameter, value, name)


def _kinds(engine: Engine) -> tuple[list[str], dict[str, Any]]:
    """Names of the states that have a value for each weight, and the others (such as the step), which all share."""
    held = [values for values in _base(engine).state.values() if values]
    names = sorted(
        {name for values in held for name, value in values.items() if isinstance(value, torch.Tensor) and value.ndim}
    )
    scalars = {
        name: value.clone() if isinstance(value, torch.Tensor) else value
        for name, value in (held[0] if held else {}).items()
        if not (isinstance(value, torch.Tensor) and value.ndim)
    }
    return names, scalars


def _make_room(engine: Engine, state: dict[int, dict[str, Any]]) -> None:
    """Give every flat part of the weights, which gets its states at its first step, states of the kinds in `state`."""
    first = next(iter(state.values()), {})
    zero, base = engine.zero, _base(engine)
    flat = (
        zero.single_partition_of_fp32_groups
        if hasattr(zero, "single_partition_of_fp32_groups")
        else zero.fp32_partitioned_groups_flat
    )
    for part in flat if first else ():
        for name, value in first.items():
            if not isinstance(value, torch.Tensor) or not value.ndim:
                base.state[part][name] = value.clone() if isinstance(value, torch.Tensor) else value
            elif name not in base.state[part]:
                base.state[part][name] = torch.zeros_like(part)
    if first and hasattr(zero, "_lazy_init_hp_params_optimizer_state"):
        zero._lazy_init_hp_params_optimizer_state()


def _set_master(engine: Engine, parameter: torch.Tensor, value: torch.Tensor, name: str | None = None) -> None:
    """Set this process's part of a weight's master copy, or of its state `name`."""
    value = value.to(parameter.device, torch.float32)
    if not hasattr(parameter, "ds_id"):
        arguments = (parameter, value) if name is None else (parameter, value, name)
        _full("safe_set_full_fp32_param" if name is None else "safe_set_full_optimizer_state")(*arguments)
        return
    part, _ = engine.zero._get_fp32_opt_state_partition(parameter, release_swap_buffers=False, optim_state_key=name)
    start = part.numel() * engine.zero._get_param_partition_rank(parameter)
    own = value.flatten()[start : start + part.numel()]  # the last part may be padded
    part[: own.numel()].copy_(own)


def _base(engine: Engine) -> Any:
    return getattr(engine.zero, "optimizer", engine.zero)


def _shape(parameter: torch.Tensor) -> torch.Size:
    return torch.Size(getattr(parameter, "ds_shape", parameter.shape))


def _check_shape(name: str, given: torch.Size, own: Any) -> None:
    if tuple(given) != tuple(own):
        raise RuntimeError(f"size mismatch for {name}: the state has {tuple(given)} and the model {tuple(own)}")


def _gathered(parameter: torch.Tensor, writer: int | None = None) -> Any:
    import deepspeed

    return deepspeed.zero.GatheredParameters([parameter], modifier_rank=writer)


def _full(name: str) -> Any:
    import deepspeed.utils

    return getattr(deepspeed.utils, name)
