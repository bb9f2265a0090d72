"""Tensors of which every process holds a part (DTensor): norms, whole copies, parts of whole ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist


def is_sharded(value: Any) -> bool:
    """Whether `value` is a tensor spread over processes."""
    from torch.distributed.tensor import DTensor

    return isinstance(value, DTensor)


def local(tensor: torch.Tensor) -> torch.Tensor:
    """This process's part of `tensor`; a tensor that is not spread is its own."""
    return tensor._local_tensor if is_sharded(tensor) else tensor


def whole(value: Any) -> Any:
    """`value` as a plain tensor; all processes must ask. What is not spread is returned as it is."""
    if not is_sharded(value):
        return value
    from torch.distributed.tensor import Replicate

    for dim in range(value.device_mesh.ndim - 1):  # parts of parts: one dimension of the mesh after the other
        value = value.redistribute(placements=[Replicate() if d <= dim else p for d, p in enumerate(value.placements)])
    return value.full_tensor()


def like(parameter: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """The plain tensor `value`, which is whole on every process, spread as `parameter` is, without communication."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    mesh, placements = parameter.device_mesh, parameter.placements
    value = value.detach().to(local(parameter).device)
    part = (
        distribute_tensor(value, mesh, placements, src_data_rank=None).to_local().clone()
    )  # a view would keep the whole one
    return DTensor.from_local(part, mesh, placements, run_check=False, shape=value.shape, stride=value.stride())


@torch.no_grad()
def clip_grad_norm(parameters: Iterable[torch.Tensor], max_norm: float, norm_type: float = 2.0) -> torch.Tensor:
    """`torch.nn.utils.clip_grad_norm_` over sharded and plain gradients: one message per way of sharding."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return torch.tensor(0.0)
    norm_type = float(norm_type)
    kinds: dict[Any, list[torch.Tensor]] = {}
    for gradient in gradients:
        kinds.setdefault(_sharding(gradient), []).append(gradient)
    device = local(gradients[0]).device
    norms = [_norm_of_kind(members, norm_type).to(device) for members in kinds.values()]
    total = torch.linalg.vector_norm(torch.stack(norms), norm_type)
    factor = (max_norm / (total + 1e-6)).clamp(max=1.0)
    for gradient in map(local, gradients):
        gradient.mul_(factor.to(gradient.device))
    return total


@torch.no_grad()
def clip_grad_value(parameters: Iterable[torch.Tensor], clip_value: float) -> None:
    """Clamp every gradient to `[-clip_value, clip_value]`."""
    for parameter in parameters:
        if parameter.grad is not None:
            local(parameter.grad).clamp_(-clip_value, clip_value)


def unscale_everywhere(scaler: torch.amp.GradScaler) -> None:
    """Let `scaler` unscale sharded and plain gradients alike, and find an overflow in any process's part: one message per optimizer step."""

    def unscale(
        optimizer: torch.optim.Optimizer, inv_scale: torch.Tensor, found_inf: torch.Tensor, allow_fp16: bool
    ) -> dict[torch.device, torch.Tensor]:
        kinds: dict[Any, list[torch.Tensor]] = {}
        for parameter in (p for group in optimizer.param_groups for p in group["params"] if p.grad is not None):
            gradient = local(parameter.grad)
            if gradient.dtype is torch.float16 and not allow_fp16:
                raise ValueError("Attempting to unscale FP16 gradients.")
            kinds.setdefault((gradient.device, gradient.dtype), []).append(gradient)
        for (device, _), gradients in kinds.items():
            found = torch.zeros((), device=device)
            torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, inv_scale.to(device))
            found_inf += found.to(found_inf.device)
        dist.all_reduce(found_inf)
        return {found_inf.device: found_inf}

    scaler._unscale_grads_ = torch.no_grad()(unscale)  # type: ignore[method-assign]


def _sharding(gradient: torch.Tensor) -> Any:
    """What gradients have in common whose norms add up over the same processes."""
    return (gradient.device_mesh, gradient.placements) if is_sharded(gradient) else None


def _norm_of_kind(gradients: list[torch.Tensor], norm_type: float) -> torch.Tensor:
    norms = torch.stack(
        [torch.linalg.vector_norm(local(g), norm_type) for g in gradients if local(g).numel()] or [torch.zeros(())]
    )
    norm = torch.linalg.vector_norm(norms, norm_type)
    if not is_sharded(gradients[0]):
        return norm
    mesh, placements = gradients[0].device_mesh, gradients[0].placements
    norm = norm.to(mesh.device_type)  # parts that are kept on the host
    for dim, placement in enumerate(placements):
        if not placement.is_replicate():
            norm = _over_group(norm, norm_type, mesh.get_group(dim))
    return norm


def _over_group(norm: torch.Tensor, norm_type: float, group: Any) -> torch.Tensor:
    """The norm of the vector whose parts have the group's norms."""
    if norm_type == float("inf"):
        dist.all_reduce(norm, dist.ReduceOp.MAX, group=group)
        return norm
    total = norm**norm_type
    dist.all_reduce(total, group=group)
    return total ** (1.0 / norm_type)


def refuse_one_vector(optimizer: torch.optim.Optimizer) -> None:
    """Raise for an optimizer that needs all weights at once.

    Raises:
        ValueError: it is LBFGS.
    """
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError(
            "LBFGS looks at all weights as one vector, which no process has when they are sharded or in stages: train data parallel, or use another optimizer"
        )
