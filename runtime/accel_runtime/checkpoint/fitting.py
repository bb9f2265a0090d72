"""Whether a checkpoint fits what is prepared. Asked before anything is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .capture import name_of, state_of
from .errors import CheckpointError
from .loaders import check_loaders
from .stage_objects import check_objects
from .stored import Stored

if TYPE_CHECKING:
    from .control import Checkpointing
    from .load import Checkpoint

_SHOWN = 3


def check(accelerator: Checkpointing, models: list[Any], checkpoint: Checkpoint, strict: bool) -> None:
    """Compare numbers, names and shapes.

    Raises:
        CheckpointError: saying what differs.
    """
    state, folder = checkpoint.state, checkpoint.folder
    prepared = {
        "models": models,
        "optimizers": accelerator.prepared_optimizers,
        "schedulers": accelerator._schedulers,
        "custom": accelerator._custom_objects,
    }
    for kind, objects in prepared.items():
        if len(objects) != len(state[kind]):
            how = "registered" if kind == "custom" else "prepared"
            named = "registered objects" if kind == "custom" else kind
            raise CheckpointError(
                f"{folder} holds {len(state[kind])} {named} and {len(objects)} are {how}: prepare and register what was there when it was saved, in the same order"
            )
    for i, model in enumerate(models):
        if strict and "plain" in state["models"][i]:
            _check_model(accelerator, model, i, checkpoint)
    for i, optimizer in enumerate(accelerator.prepared_optimizers):
        if "plain" in state["optimizers"][i]:
            _check_optimizer(accelerator, optimizer, i, checkpoint)
    check_objects(accelerator, checkpoint)
    check_loaders(accelerator._dataloaders, checkpoint.owned("loaders"), folder)


def _check_model(accelerator: Checkpointing, model: Any, index: int, checkpoint: Checkpoint) -> None:
    saved = checkpoint.read(checkpoint.state["models"][index], name_of("model", index), _outline)
    now = state_of(accelerator, model)
    differing = [f"{name} is in the checkpoint only" for name in saved if name not in now]
    differing += [f"{name} is not in the checkpoint" for name in now if name not in saved]
    for name in now:
        shapes = [tuple(getattr(each.get(name), "shape", ())) for each in (saved, now)]
        if name in saved and shapes[0] != shapes[1]:
            differing.append(f"{name} is {list(shapes[0])} in the checkpoint and {list(shapes[1])} here")
    if differing:
        raise CheckpointError(f"{checkpoint.folder} is of another model: {_listed(differing)}")


def _check_optimizer(accelerator: Checkpointing, optimizer: torch.optim.Optimizer, index: int, checkpoint: Checkpoint) -> None:
    saved = checkpoint.read(checkpoint.state["optimizers"][index], name_of("optimizer", index), _outline)
    sizes = [
        [len(group["params"]) for group in saved.get("param_groups", [])],
        [len(group) for group in accelerator.strategy.groups(optimizer)],
    ]
    if sizes[0] != sizes[1]:
        raise CheckpointError(
            f"{checkpoint.folder} is of another optimizer: its groups have {sizes[0]} parameters, and those prepared {sizes[1]}"
        )
    for then, now in zip(saved.get("param_groups", []), optimizer.param_groups, strict=False):
        lost, missing = sorted(set(then) - set(now)), sorted(set(optimizer.defaults) - set(then))
        if lost and missing:  # newer versions of torch add options: those are missing only
            raise CheckpointError(
                f"{checkpoint.folder} is of another optimizer: it has options {lost} and {type(optimizer).__name__} has {missing}"
            )


def _outline(stored: Stored) -> torch.Tensor:
    """A tensor's type and shape; bytes as they are, since values of other types are made of them."""
    return stored.whole() if stored.dtype is torch.uint8 else torch.empty(stored.shape, dtype=stored.dtype, device="meta")


def _listed(differing: list[str]) -> str:
    more = f" and {len(differing) - _SHOWN} more" if len(differing) > _SHOWN else ""
    return "; ".join(differing[:_SHOWN]) + more
