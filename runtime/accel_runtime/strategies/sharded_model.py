"""What is added to `fully_shard` on a model, so that it trains like the model of one process however it is used.

Everything here hangs on torch's `FSDPState` of the model and its units.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from . import fsdp_versions, methods, states, view_outputs
from .roll_call import RollCall


class ShardedModel:
    """A model whose units `fully_shard` has sharded.

    Attributes:
        parameters: what torch keeps of each parameter (`FSDPParam`).
    """

    def __init__(self, model: nn.Module, units: list[nn.Module], device: torch.device) -> None:
        self.model = model
        self.root = _state(model)
        self.root._lazy_init()  # `model` is the root, also when training begins with a part of it
        groups = [group for state in self.root._state_ctx.all_states for group in fsdp_versions.groups(state)]
        self.parameters = [parameter for group in groups for parameter in group.fsdp_params]
        self.by_sharded = {id(parameter.sharded_param): parameter for parameter in self.parameters}
        RollCall(groups, device)
        for unit in units:
            methods.route(unit, _state(unit))
            view_outputs.guard(_state(unit))
        self._gather_for_parts()
        self._clear_all_gradients()
        model.register_forward_pre_hook(self._recover, prepend=True)
        model.register_forward_hook(_reshard_without_grad)
        states.accept_whole_states(model)

    def set_sync(self, enabled: bool) -> None:
        """Whether backwards reduce gradients."""
        self.model.set_requires_gradient_sync(enabled)  # type: ignore[operator]

    def gathered(self) -> Iterator[torch.Tensor]:
        """The whole parameters that forward and backward compute with."""
        return (parameter._unsharded_param for parameter in self.parameters if hasattr(parameter, "_unsharded_param"))

    def _gather_for_parts(self) -> None:
        """Let a part of the model that is called by itself find the weights which are gathered with the whole model."""
        for group in fsdp_versions.groups(self.root):
            places = {info.module for p in group.fsdp_params for info in _places(p)}
            for module in places - {self.model}:
                _Part(self, module)

    def _clear_all_gradients(self) -> None:
        """Let `zero_grad` of the modules reach the parts of gradients also while the weights are gathered."""
        places: dict[int, list[Any]] = {}
        for parameter in self.parameters:
            for info in _places(parameter):
                places.setdefault(id(info.module), []).append(parameter)
        for module in self.model.modules():
            held = [parameter for part in module.modules() for parameter in places.get(id(part), ())]
            if held:
                module.zero_grad = types.MethodType(_zero_grad(module.zero_grad, held), module)  # type: ignore[method-assign]

    def _recover(self, *unused: Any) -> None:
        """Clear what a backward that raised has left behind."""
        if self.root._state_ctx.post_backward_final_callback_queued and torch._C._current_graph_task_id() == -1:
            fsdp_versions.recover(self.root)


class _Part:
    """The hooks of one part: outside of the model's forward they do what that does around it."""

    def __init__(self, model: ShardedModel, module: nn.Module) -> None:
        self.owner = model
        self.state = model.root
        self.alone = False
        module.register_forward_pre_hook(self.before, prepend=True)
        module.register_forward_hook(self.after)

    def before(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if self.state._training_state.name != "IDLE":
            return
        self.owner._recover()
        self.alone = True
        self.state._root_pre_forward(module, (), {})
        self.state._training_state = type(self.state._training_state).FORWARD
        for group in fsdp_versions.groups(self.state):
            group._training_state = self.state._training_state
            group.unshard()
            group.wait_for_unshard()

    def after(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        if not self.alone:
            return None
        self.alone = False
        output = self.state._post_forward(module, args, output)
        _reshard_without_grad(self.owner.model)
        return output


def forget_local_gradients(parameters: list[Any]) -> None:
    """Drop what backwards without synchronization have left in the gathered parameters."""
    for parameter in parameters:
        parameter.unsharded_accumulated_grad = None
        if hasattr(parameter, "_unsharded_param"):
            parameter._unsharded_param.grad = None


def _state(module: nn.Module) -> Any:
    from torch.distributed.fsdp import fully_shard

    return fully_shard.state(module)  # type: ignore[attr-defined]


def _places(parameter: Any) -> Iterator[Any]:
    """Every module that holds the parameter, and its name there."""
    info = parameter._module_info
    yield info
    for module, name in zip(info.shared_modules, info.shared_param_names, strict=True):
        yield type(info)(module, name)


def _zero_grad(plain: Callable[..., None], parameters: list[Any]) -> Callable[..., None]:
    @functools.wraps(plain)
    def zero_grad(module: nn.Module, set_to_none: bool = True) -> None:
        plain(set_to_none)
        forget_local_gradients(parameters)
        for parameter in parameters:
            gradient = parameter.sharded_param.grad
            if set_to_none:
                parameter.sharded_param.grad = None
            elif gradient is not None:
                gradient.zero_()

    return zero_grad


def _reshard_without_grad(module: nn.Module, *unused: Any) -> None:
    """After an evaluation no backward comes to let go of the whole weights, and training would go on with old ones."""
    if not torch.is_grad_enabled():
        module.reshard()  # type: ignore[operator]
