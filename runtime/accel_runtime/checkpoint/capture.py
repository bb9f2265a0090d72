"""What a checkpoint consists of: taken from the live objects as files to be written, without copying a tensor."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from . import streams
from .gradients import pending_gradients
from .loaders import loader_states
from .shares import as_file, in_parts, shares, writers
from .tree import Encoder, NotPlain

if TYPE_CHECKING:
    from ..world import World
    from .control import Checkpointing

STATE = "state.json"
SHARED = "state"


@dataclass
class Files:
    """The files that one process writes.

    Attributes:
        tensors: name -> (tensors, metadata).
        json: name -> content.
        pickled: name -> object, for `torch.save`.
    """

    tensors: dict[str, tuple[dict[str, torch.Tensor], dict[str, str]]] = field(default_factory=dict)
    json: dict[str, Any] = field(default_factory=dict)
    pickled: dict[str, Any] = field(default_factory=dict)

    def freeze_pickled(self) -> None:
        """Pickle now what is to be pickled, since it may change before it is written."""
        for name, value in self.pickled.items():
            target = io.BytesIO()
            torch.save(value, target)
            self.pickled[name] = target.getbuffer()


def capture(accelerator: Checkpointing, world: World, weights: list[dict[str, Any]], safe: bool) -> Files:
    """This process's files.

    Args:
        accelerator: what is to be saved.
        world: the processes that write: all, or the main one alone.
        weights: the states of the models, as far as hooks have left them.
        safe: store models as safetensors.
    """
    files = Files()
    shared = Encoder()
    models = [_model(accelerator, world, i, state, safe, files) for i, state in enumerate(weights)]
    optimizers = [
        _optimizer(accelerator, world, i, optimizer, files)
        for i, optimizer in enumerate(accelerator.prepared_optimizers)
    ]
    if accelerator.is_main_process:
        state = {
            "models": models,
            "optimizers": optimizers,
            "schedulers": [
                _object(s.state_dict(), name_of("scheduler", i), shared, files)
                for i, s in enumerate(accelerator._schedulers)
            ],
            "scaler": shared.encode(accelerator.precision.scaler.state_dict(), "scaler")
            if accelerator.precision.scaler is not None
            else None,
            "custom": [
                _object(o.state_dict(), f"custom_checkpoint_{i}", shared, files)
                for i, o in enumerate(accelerator._custom_objects)
            ],
            "counters": shared.encode(accelerator.counters, "counters"),
            "epochs": accelerator.epoch_state(),
            "accumulation": accelerator.accumulation.window_state(),
            "exact": accelerator.exact,
            "processes": accelerator.num_processes,
            "stages": stages_of(accelerator),
        }
        files.json[STATE] = state
        if shared.tensors:
            files.tensors[f"{SHARED}.safetensors"] = (shared.tensors, {})
    _own(accelerator, files)
    return files


def tensors_to_save(accelerator: Checkpointing, world: World) -> Files:
    """Of this process's files, the tensors of models and optimizers as they are now; without communication."""
    files = Files()
    with contextlib.suppress(ValueError):  # what cannot be stored so is told of when it is saved
        for i, model in enumerate(accelerator._models):
            _model(accelerator, world, i, state_to_save(accelerator, model), True, files)
    for i, optimizer in enumerate(accelerator.prepared_optimizers):
        _optimizer(accelerator, world, i, optimizer, files)
    return files


def name_of(kind: str, index: int) -> str:
    """The stem of a component's files: Accelerate's, `model`, `model_1`, ..."""
    return f"{kind}_{index}" if index else kind


def name_of_object(index: int) -> str:
    """What messages call a registered object."""
    return f"registered object {index}"


def state_of(accelerator: Checkpointing, model: nn.Module) -> dict[str, Any]:
    """The state of a model, compiled or not; of sharded weights each process has its block, as a `DTensor`."""
    return accelerator.strategy.sharded_state_dict(getattr(model, "_orig_mod", model))


def state_to_save(accelerator: Checkpointing, target: Any) -> dict[str, Any]:
    """The state of a model or an optimizer as checkpoints hold it; where it becomes whole all processes have to ask."""
    strategy, target = accelerator.strategy, getattr(target, "_orig_mod", target)
    return strategy.state_dict(target) if strategy.saves_whole else strategy.sharded_state_dict(target)


def is_sharded(accelerator: Checkpointing) -> bool:
    """Whether a process holds a part only of some model."""
    return any(hasattr(p, "placements") for model in accelerator._models for p in model.parameters())


def stages_of(accelerator: Checkpointing) -> int:
    """How many stages the models are in."""
    return accelerator.strategy.stages.size if accelerator.strategy.stages is not None else 1


def own_name(rank: int) -> str:
    """The stem of the files of one process."""
    return f"process_{rank}"


def _model(
    accelerator: Checkpointing, world: World, index: int, state: dict[str, Any], safe: bool, files: Files
) -> Any:
    stem = name_of("model", index)
    if not safe:
        name = f"{name_of('pytorch_model', index)}.bin"
        whole = accelerator.strategy.state_dict(accelerator._models[index]) if is_sharded(accelerator) else state
        if accelerator.is_main_process:
            files.pickled[name] = whole
        return {"pickled": name}
    encoder = Encoder()
    try:
        skeleton = encoder.encode(state)
    except NotPlain as error:
        raise ValueError(
            f"the state of model {index} cannot be stored without pickling: {error}; use save_state(..., safe_serialization=False)"
        ) from error
    model = accelerator._models[index] if index < len(accelerator._models) else None
    shared = model is not None and not accelerator.strategy.saves_whole
    alike = set(dict(model.named_parameters())) if shared else set()
    _share_out(world, stem, encoder, alike, files)
    return {"plain": skeleton, "versions": Encoder().encode(dict(getattr(state, "_metadata", {})))}


def _optimizer(accelerator: Checkpointing, world: World, index: int, optimizer: Any, files: Files) -> Any:
    encoder = Encoder()
    try:
        skeleton = encoder.encode(state_to_save(accelerator, optimizer))
    except NotPlain:
        name = f"{name_of('optimizer', index)}.bin"
        whole = accelerator.strategy.state_dict(optimizer)
        if accelerator.is_main_process:
            files.pickled[name] = whole
        return {"pickled": name}
    alike = set() if accelerator.strategy.saves_whole else set(encoder.tensors)
    _share_out(world, name_of("optimizer", index), encoder, alike, files)
    return {"plain": skeleton}


def _share_out(world: World, stem: str, encoder: Encoder, alike: set[str], files: Files) -> None:
    own = shares(world, encoder.tensors, alike)
    if not in_parts(world, encoder.tensors, alike):
        if world.is_main:
            files.tensors[f"{stem}.safetensors"] = as_file(own)
        return
    names = [f"{stem}-{rank + 1:05d}-of-{world.size:05d}.safetensors" for rank in range(world.size)]
    files.tensors[names[world.rank]] = as_file(own)
    whole = writers(world, encoder.tensors, alike)
    if world.is_main and whole is not None:
        size = sum(t.numel() * t.element_size() for t in encoder.tensors.values())
        places = {name: names[rank] for name, rank in sorted(whole.items())}
        files.json[f"{stem}.safetensors.index.json"] = {"metadata": {"total_size": size}, "weight_map": places}


def _object(state: Any, stem: str, shared: Encoder, files: Files) -> Any:
    """An object's state in plain form, else pickled in a file of its own."""
    encoder = Encoder()
    try:
        skeleton = encoder.encode(state, stem)
    except NotPlain:
        files.pickled[f"{stem}.pkl"] = state
        return {"pickled": f"{stem}.pkl"}
    shared.tensors.update(encoder.tensors)
    return {"plain": skeleton}


def _own(accelerator: Checkpointing, files: Files) -> None:
    """What each process has of its own: random streams, positions, gradients that wait for their step."""
    encoder = Encoder()
    stem = own_name(accelerator.process_index)
    if accelerator.accumulation.unstepped and is_sharded(accelerator):
        raise ValueError(
            "gradients of sharded weights cannot be saved: call save_state after the optimizer's step, not in the middle of an accumulation window"
        )
    files.json[f"{stem}.json"] = {
        "streams": encoder.encode(streams.take(accelerator.world), "streams"),
        "loaders": encoder.encode(loader_states(accelerator._dataloaders, accelerator.tracker.runs), "loaders"),
        "gradients": encoder.encode(
            pending_gradients(accelerator) if accelerator.accumulation.unstepped else {},
            "gradients",
        ),
    }
    if accelerator.strategy.stages is not None:
        files.json[f"{stem}.json"]["custom"] = _objects_of_stage(accelerator, encoder)
    if encoder.tensors:
        files.tensors[f"{stem}.safetensors"] = (encoder.tensors, {})


def _objects_of_stage(accelerator: Checkpointing, encoder: Encoder) -> list[Any]:
    """The registered objects of the stages behind the first one, whose are everyone's; of the first pipeline."""
    strategy, found = accelerator.strategy, []
    if strategy.stages is None or strategy.stages.rank == 0 or strategy.data_world.rank:
        return []
    for i, item in enumerate(accelerator._custom_objects):
        try:
            found.append(encoder.encode(item.state_dict(), f"custom.{i}"))
        except NotPlain as error:
            raise ValueError(f"the state of {name_of_object(i)} ({type(item).__name__}) cannot be saved for each stage of a pipeline: {error}; let it hold tensors and plain values") from error
    return found
