"""Layers whose weight stands the other way round, `[inputs, outputs]`: the `Conv1D` of GPT-2 and its kin, split like linear ones."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


def is_transposed(module: nn.Module | None) -> bool:
    """Whether `module` computes `x @ weight + bias` with a weight `[inputs, outputs]`, as Transformers' `Conv1D`."""
    weight = getattr(module, "weight", None)
    if type(module).__name__ != "Conv1D" or not isinstance(weight, torch.Tensor):
        return False
    return weight.ndim == 2 and weight.shape[1] == getattr(module, "nf", None)


def sizes(module: nn.Module) -> tuple[int, int] | None:
    """Inputs and outputs of a linear layer of either kind; None for other modules."""
    if is_transposed(module):
        inputs, outputs = module.weight.shape  # type: ignore[misc, union-attr]
        return inputs, outputs
    if hasattr(module, "in_features") and hasattr(module, "out_features"):
        return module.in_features, module.out_features  # type: ignore[return-value]
    return None


def style(linear: Any) -> Any:
    """The style `linear` (`ColwiseParallel` or `RowwiseParallel`) for such a layer."""
    from torch.distributed.tensor import Replicate, Shard, distribute_module, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel

    by_columns = isinstance(linear, ColwiseParallel)
    # What the style demands of a linear layer's inputs when it is applied.
    linear.desired_input_layouts = (Replicate() if by_columns else Shard(-1),)
    placements = {"weight": Shard(1) if by_columns else Shard(0), "bias": Shard(0) if by_columns else Replicate()}

    def partition(name: str, module: nn.Module, mesh: Any) -> None:
        for key, parameter in list(module.named_parameters(recurse=False)):
            part = distribute_tensor(parameter, mesh, [placements[key]])
            module.register_parameter(key, nn.Parameter(part, requires_grad=parameter.requires_grad))

    class Transposed(type(linear)):  # type: ignore[misc]
        def _apply(self, module: nn.Module, mesh: Any) -> nn.Module:
            def before(module: nn.Module, inputs: Any, mesh: Any) -> Any:
                return self._prepare_input_fn(self.input_layouts, self.desired_input_layouts, module, inputs, mesh)

            def after(module: nn.Module, outputs: Any, mesh: Any) -> Any:
                return self._prepare_output_fn(self.output_layouts, self.use_local_output, module, outputs, mesh)

            return distribute_module(module, mesh, partition, before, after)

    linear.__class__ = Transposed
    return linear
