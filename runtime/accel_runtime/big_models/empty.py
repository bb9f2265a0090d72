"""Models whose weights take no memory, or lie on a given device from the start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import nn


def init_empty_weights(include_buffers: bool = False) -> AbstractContextManager[None]:
    """Within it, parameters of new modules are on the "meta" device; with `include_buffers` all new tensors are."""
    return init_on_device(torch.device("meta"), include_buffers)


@contextmanager
def init_on_device(device: Any, include_buffers: bool = False) -> Iterator[None]:
    """Within it, parameters of new modules are on `device`; with `include_buffers` all new tensors are."""
    if include_buffers:
        with torch.device(device):
            yield
        return
    original = nn.Module.register_parameter

    def register(module: nn.Module, name: str, param: nn.Parameter | None) -> None:
        original(module, name, param)
        if param is not None:
            moved = type(param)(param.detach().to(device), requires_grad=param.requires_grad)
            moved.__dict__.update(param.__dict__)
            module._parameters[name] = moved

    nn.Module.register_parameter = register  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        nn.Module.register_parameter = original  # type: ignore[method-assign]
