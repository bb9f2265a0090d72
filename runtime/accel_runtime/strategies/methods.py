"""Training through methods other than `forward`: a sharded module's weights are gathered for these, too."""

from __future__ import annotations

import dis
import functools
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

from torch import nn


def route(module: nn.Module, state: Any) -> None:
    """Let the user's methods of `module` that compute with its parts gather its weights as `forward` does.

    Args:
        state: torch's `FSDPState` of the module.
    """
    for name in _computing_methods(module):
        setattr(module, name, _routed(module, getattr(module, name), state))


def _routed(module: nn.Module, method: Callable[..., Any], state: Any) -> Callable[..., Any]:
    depth = 0

    @functools.wraps(method)
    def routed(*args: Any, **kwargs: Any) -> Any:
        nonlocal depth
        if depth or state._training_state.name != "IDLE":
            return method(*args, **kwargs)
        args, kwargs = state._pre_forward(module, args, kwargs)
        depth += 1
        try:
            result = method(*args, **kwargs)
        finally:
            depth -= 1
        return state._post_forward(module, args, result)

    return routed


def _computing_methods(module: nn.Module) -> Iterator[str]:
    """Methods other than `forward` which are given something and mention parts or parameters of the module."""
    names = {*module._modules, *module._parameters}
    for cls in type(module).__mro__:
        if cls.__module__.partition(".")[0] == "torch":
            continue
        for name, value in vars(cls).items():
            if (
                name != "forward"
                and not name.startswith("__")
                and name not in module.__dict__
                and _computes(value, names)
            ):
                yield name


def _computes(method: Any, names: set[str]) -> bool:
    if not isinstance(method, types.FunctionType) or inspect.isgeneratorfunction(method):
        return False
    return method.__code__.co_argcount > 1 and bool(names & _attributes(method.__code__))


def _attributes(code: types.CodeType) -> set[str]:
    """The attributes that a function reads, nested functions included."""
    found = {str(i.argval) for i in dis.get_instructions(code) if i.opname in ("LOAD_ATTR", "LOAD_METHOD")}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _attributes(constant)
    return found
