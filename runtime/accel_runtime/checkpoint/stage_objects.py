"""Registered objects where the model is in the stages of a pipeline: each stage has its own, such as an average of its weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .capture import SHARED, name_of_object, stages_of
from .errors import CheckpointError
from .tree import Encoder

if TYPE_CHECKING:
    from .control import Checkpointing
    from .load import Checkpoint


def check_objects(accelerator: Checkpointing, checkpoint: Checkpoint) -> None:
    """Raise where an object may hold the part of a stage that is none here.

    Raises:
        CheckpointError: the number of stages is another one, and the object's states differ between stages or hold tensors of a whole model.
    """
    then, now = checkpoint.stages, stages_of(accelerator)
    if then == now:
        return
    for i, item in enumerate(accelerator._custom_objects):
        entry = checkpoint.state["custom"][i]
        skeleton, tensors = (
            ({}, {"": torch.empty(0)}) if "pickled" in entry else _outline(checkpoint.read(entry, SHARED))
        )
        others = [_outline(_part(checkpoint, stage)[i]) for stage in range(1, then)]
        if (then == 1 and tensors) or not all(_equal((skeleton, tensors), other) for other in others):
            raise CheckpointError(
                f"{checkpoint.folder} holds {name_of_object(i)} ({type(item).__name__}) as it was with pp_size={then}, and it may be of one stage's weights: "
                f"resume with pp_size={then} instead of {now}, or do not register it"
            )


def own_states(accelerator: Checkpointing, checkpoint: Checkpoint) -> list[Any] | None:
    """The states that the objects of this stage had; None: those that all processes load."""
    stages = accelerator.strategy.stages
    if stages is None or stages.rank == 0 or checkpoint.stages != stages.size:
        return None
    return _part(checkpoint, stages.rank)


def _part(checkpoint: Checkpoint, stage: int) -> list[Any]:
    """What the first process with this stage has written."""
    return checkpoint.owned("custom", stage * (checkpoint.manifest.processes // checkpoint.stages))


def _outline(state: Any) -> tuple[Any, dict[str, torch.Tensor]]:
    encoder = Encoder()
    return encoder.encode(state), encoder.tensors


def _equal(one: tuple[Any, dict[str, torch.Tensor]], other: tuple[Any, dict[str, torch.Tensor]]) -> bool:
    return one[0] == other[0] and all(torch.equal(tensor, other[1][name]) for name, tensor in one[1].items())
