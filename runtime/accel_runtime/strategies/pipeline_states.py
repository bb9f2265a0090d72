"""States of pipelines: whole ones out of the stages', and each stage's out of whole ones."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from ..nested import map_tensors
from ..world import World


def whole_model(stage: nn.Module, stages: World) -> dict[str, Any]:
    """The states of all stages in one, on the CPU of every process; all of them have to ask."""
    parts = _gathered(stages, stage.state_dict())
    return OrderedDict((name, value) for part in parts for name, value in part.items())


def whole_optimizer(optimizer: torch.optim.Optimizer, stages: World) -> dict[str, Any]:
    """The states of all stages' optimizers, as one optimizer of the whole model numbers its parameters."""
    parts = _gathered(stages, optimizer.state_dict())
    counts = [[len(group["params"]) for group in part["param_groups"]] for part in parts]
    state: dict[int, Any] = {}
    for stage, part in enumerate(parts):
        numbers = dict(zip(_flat(part), places(counts, stage), strict=True))
        state |= {numbers[number]: entry for number, entry in part["state"].items()}
    starts = _starts(counts)
    groups = [
        {**group, "params": list(range(starts[i], starts[i] + sum(each[i] for each in counts)))}
        for i, group in enumerate(parts[0]["param_groups"])
    ]
    return {**parts[0], "state": dict(sorted(state.items())), "param_groups": groups}


def accept_whole_states(stage: nn.Module, stages: World) -> None:
    """Let `stage.load_state_dict` take whole states, and leave aside what other stages have.

    Raises:
        ValueError: two stages have a name in common, or all of them.
    """
    names = _gathered(stages, list(stage.state_dict()))
    own = set(names[stages.rank])
    if own and all(set(each) == own for each in names):
        raise ValueError(
            "every stage of the pipeline brings the same weights: the whole model was prepared on each; pp_size needs this process's layers, stage = accelerator.pipeline_stage(model), and the lines of docs/strategies.md#pipelines"
        )
    others = {name for rank, each in enumerate(names) if rank != stages.rank for name in each}
    if own & others:
        raise ValueError(
            f"two stages of the pipeline have a weight named {min(own & others)!r}: let parts keep the names that they have in the whole model, as accelerator.pipeline_stage(model) does"
        )

    def leave_aside(module: nn.Module, state: dict[str, Any], prefix: str, *unused: Any) -> None:
        for name in [key for key in state if key.removeprefix(prefix) in others]:
            del state[name]

    stage.register_load_state_dict_pre_hook(leave_aside)


def accept_whole_optimizer_states(optimizer: torch.optim.Optimizer, stages: World) -> list[list[int]]:
    """Let `optimizer.load_state_dict` take whole states; how many parameters each group of each stage has.

    Raises:
        ValueError: the stages' optimizers have different numbers of groups.
    """
    counts = _gathered(stages, [len(group["params"]) for group in optimizer.param_groups])
    if len({len(each) for each in counts}) > 1:
        raise ValueError(f"the optimizers of the stages have {[len(each) for each in counts]} groups: make the same groups on all, empty ones too")
    whole = [sum(numbers) for numbers in zip(*counts, strict=True)]

    def own_part(_: torch.optim.Optimizer, state: dict[str, Any]) -> dict[str, Any] | None:
        if [len(group["params"]) for group in state["param_groups"]] != whole:
            return None
        numbers = {old: new for new, old in enumerate(_flat_at(state, counts, stages.rank))}
        groups, at = [], 0
        for group, count in zip(state["param_groups"], counts[stages.rank], strict=True):
            groups.append({**group, "params": list(range(at, at + count))})
            at += count
        return {**state, "state": {numbers[n]: entry for n, entry in state["state"].items() if n in numbers}, "param_groups": groups}

    optimizer.register_load_state_dict_pre_hook(own_part)
    return counts


def _flat(state: dict[str, Any]) -> list[int]:
    return [number for group in state["param_groups"] for number in group["params"]]


def _flat_at(state: dict[str, Any], counts: list[list[int]], stage: int) -> list[int]:
    flat = _flat(state)
    return [flat[at] for at in places(counts, stage)]


def _starts(counts: list[list[int]]) -> list[int]:
    """Of each group, the number of its first parameter in the whole."""
    sizes = [sum(numbers) for numbers in zip(*counts, strict=True)]
    return [sum(sizes[:i]) for i in range(len(sizes))]


def places(counts: list[list[int]], stage: int) -> list[int]:
    """The places of a stage's parameters among those of the whole."""
    found: list[int] = []
    for i, start in enumerate(_starts(counts)):
        first = start + sum(counts[earlier][i] for earlier in range(stage))
        found += range(first, first + counts[stage][i])
    return found


def _gathered(stages: World, value: Any) -> list[Any]:
    """`value` of every stage, tensors on the CPU."""
    found: list[Any] = [None] * stages.size
    dist.all_gather_object(found, map_tensors(lambda t: t.detach().cpu(), value), group=stages.group)
    return found
