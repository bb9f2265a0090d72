"""Means over the parts of a batch, weighed as the mean over the whole of it is: by how many terms each process averages."""

from __future__ import annotations

import functools
from typing import Any

_OF_ELEMENTS = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits")
_OF_TARGETS = ("cross_entropy", "nll_loss")


def share_denominators() -> None:
    """Patch the losses of torch in this process; on one process they are what they were."""
    import torch

    functional = torch.nn.functional
    for name in _OF_ELEMENTS:
        setattr(functional, name, _weighed(getattr(functional, name), lambda given, target, **_: float(given.numel())))
    for name in _OF_TARGETS:
        setattr(functional, name, _weighed(getattr(functional, name), _targets))


def _targets(given: Any, target: Any, weight: Any = None, ignore_index: int = -100, **_: Any) -> float:
    """The sum of the weights of the targets that count."""
    if target.is_floating_point():
        return float(target.shape[0])
    kept = target[target != ignore_index]
    return float(kept.numel() if weight is None else weight[kept].sum())


def _weighed(plain: Any, count: Any) -> Any:
    import torch
    import torch.distributed as dist

    @functools.wraps(plain)
    def loss(input: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
        value = plain(input, target, *args, **kwargs)
        if args or kwargs.get("reduction", "mean") != "mean" or not (value.requires_grad and dist.is_initialized()):
            return value
        mine = torch.tensor(count(input, target, **kwargs), dtype=torch.float64)
        every = mine.clone()
        dist.all_reduce(every)
        return value * (mine * dist.get_world_size() / every).to(value.dtype)

    return loss
