"""Outputs of sharded units that are views, as `nn.Linear` gives of a batch of sequences: operations in place on them are allowed.

Torch gathers a unit's weights for the backward, and ends that backward, from a hook on the unit's outputs. An operation in place on
a view puts it on another node of the graph, and the hook is lost: weights are missing, or gradients stay unreduced. What the
view looks at keeps its node, in which the gradient arrives before it reaches anything that needs the weights.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch

_WARNING = r"FSDP2-wrapped module \(.*\) returned a view tensor"


def guard(state: Any) -> None:
    """Let backwards through a unit (torch's `FSDPState` of it) begin also where its outputs were changed in place.

    Torch's warning of that is silenced: it does not hold any more.
    """
    plain = state._register_pre_backward_hook

    def register(output: Any) -> Any:
        output = plain(output)
        if torch.is_grad_enabled():
            torch.utils._pytree.tree_map_only(torch.Tensor, lambda tensor: _watch(tensor, state), output)
        return output

    state._register_pre_backward_hook = register
    warnings.filterwarnings("ignore", message=_WARNING, category=UserWarning)


def _watch(tensor: torch.Tensor, state: Any) -> None:
    base = tensor._base
    if base is None or not tensor.requires_grad or base.grad_fn is None:  # of leaves that need gradients none is changed in place
        return
    reached = False

    def at_view(gradient: torch.Tensor) -> None:
        nonlocal reached
        reached = True

    def at_base(gradient: torch.Tensor) -> None:
        if not reached:
            state._pre_backward(gradient)

    tensor.register_hook(at_view)
    base.register_hook(at_base)
