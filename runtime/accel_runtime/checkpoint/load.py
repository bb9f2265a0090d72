"""`load_state`, step by step: find, verify, compare with what is prepared, and only then change anything."""

from __future__ import annotations

import json
import pickle
import warnings
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from . import fitting, places, streams
from .capture import SHARED, STATE, is_sharded, name_of, own_name, stages_of
from .errors import CheckpointError
from .gradients import load_gradients
from .loaders import load_loaders
from .manifest import check_content, check_sizes, path_of, read_manifest
from .parallel import all_of, threads_for
from .stage_objects import own_states
from .stored import Stored, stored_tensors
from .tree import decode
from .writing import on_main, together

if TYPE_CHECKING:
    from .control import Checkpointing


class Checkpoint:
    """A checkpoint that was found complete, with every file that this process reads verified.

    Raises:
        CheckpointError: a file is missing or damaged.
    """

    def __init__(self, folder: Path, rank: int, processes: int, weights_only: bool, threads: int = 1, stages: int = 1) -> None:
        self.folder = folder
        self.weights_only = weights_only
        self.manifest = read_manifest(folder)
        check_sizes(folder, self.manifest)
        self.rank = rank if rank < self.manifest.processes else 0
        self._components: dict[str, dict[str, Stored]] = {}
        self._unpickled: dict[str, Any] = {}
        self.state = self._json(STATE)
        self.stages = self.state.get("stages", 1)
        self.same_number = (self.manifest.processes, self.stages) == (processes, stages)
        self.own = self._json(f"{own_name(self.rank)}.json")
        owners = [own_name(each) for each in ([self.rank] if self.same_number else range(self.manifest.processes))]
        self._verify(owners, everything=rank == 0, threads=threads)

    def _verify(self, owners: list[str], everything: bool, threads: int) -> None:
        components = [name_of(kind[:-1], i) for kind in ("models", "optimizers") for i in range(len(self.state[kind]))]
        stored = [each for stem in (SHARED, *owners, *components) for each in self.tensors(stem).values()]
        all_of([each.verify for each in stored], threads)
        wanted = {*self._pickled(), *(f"{stem}.json" for stem in owners)}
        for name in self.manifest.files:
            if name in wanted or (everything and not name.startswith("process_")):
                check_content(self.folder, self.manifest, name)

    def _pickled(self) -> list[str]:
        entries = [entry for kind in ("models", "optimizers", "schedulers", "custom") for entry in self.state[kind]]
        return [entry["pickled"] for entry in entries if "pickled" in entry]

    def unpickle(self) -> None:
        """Read what was pickled.

        Raises:
            CheckpointError: it holds more than tensors and plain values, and `weights_only` forbids that.
        """
        for name in self._pickled():
            self._unpickled[name] = self._unpickle(name)

    def tensors(self, stem: str) -> dict[str, Stored]:
        """The tensors of a component."""
        if stem not in self._components:
            self._components[stem] = stored_tensors(self.folder, self.manifest, stem)
        return self._components[stem]

    def read(self, entry: Any, stem: str, place: Callable[[Stored], Any] = Stored.whole) -> Any:
        """The value that `entry` describes, with its tensors from the files of `stem`."""
        if "pickled" in entry:
            return self._unpickled.pop(entry["pickled"])
        stored = self.tensors(stem)

        def tensor(name: str) -> Any:
            if name not in stored:
                raise CheckpointError(f"{self.folder} lacks tensor {name!r} of {stem}")
            return place(stored[name])

        try:
            return decode(entry["plain"], tensor)
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{self.folder / STATE} is damaged: {error}") from error

    def owned(self, key: str, rank: int | None = None) -> Any:
        """What process `rank` (default: this one) had of its own."""
        rank = self.rank if rank is None else rank
        content = self.own if rank == self.rank else self._json(f"{own_name(rank)}.json")
        return self.read({"plain": content[key]}, own_name(rank), _own)

    def _json(self, name: str) -> Any:
        path = check_content(self.folder, self.manifest, name)
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise CheckpointError(f"{path} is damaged: {error}") from error

    def _unpickle(self, name: str) -> Any:
        path = path_of(self.folder, name)
        try:
            return torch.load(path, map_location="cpu", weights_only=self.weights_only)
        except pickle.UnpicklingError as error:
            raise CheckpointError(
                f"{path} holds objects other than tensors and plain values, which could run code when they are read: "
                "if you trust the file, call load_state(..., load_kwargs={'weights_only': False})"
            ) from error


def open_checkpoint(accelerator: Checkpointing, input_dir: str | None, weights_only: bool) -> Checkpoint | None:
    """The checkpoint that was asked for; for None the newest one that is whole on every process, or None.

    Raises:
        CheckpointError: the one that was asked for is missing or damaged.
    """
    world = accelerator.world
    if input_dir is not None:
        folder = on_main(world, lambda: str(places.existing(input_dir)), "")
        return together_open(accelerator, Path(folder), weights_only)
    parent = places.numbered_folder(accelerator.project_configuration)
    for name in on_main(world, lambda: [str(path) for path in places.candidates(parent)], ""):
        try:
            return together_open(accelerator, Path(name), weights_only)
        except CheckpointError as error:
            if world.is_main:
                warnings.warn(f"passing over {name}: {error}", stacklevel=3)
    return None


def together_open(accelerator: Checkpointing, folder: Path, weights_only: bool) -> Checkpoint:
    """Open a checkpoint on every process, or on none."""
    opened: list[Checkpoint] = []
    rank, size, threads = accelerator.process_index, accelerator.num_processes, threads_for(accelerator.world)
    together(accelerator.world, lambda: opened.append(Checkpoint(folder, rank, size, weights_only, threads, stages_of(accelerator))), "")
    return opened[0]


def load(accelerator: Checkpointing, checkpoint: Checkpoint, **model_options: Any) -> None:
    """Set everything that is prepared or registered to what the checkpoint holds."""
    together(accelerator.world, checkpoint.unpickle, "")
    models = list(accelerator._models)
    for hook in accelerator._load_hooks.values():
        hook(models, str(checkpoint.folder))
    together(
        accelerator.world, lambda: fitting.check(accelerator, models, checkpoint, model_options.get("strict", True)), ""
    )
    for i, model in enumerate(models):
        getattr(model, "_orig_mod", model).load_state_dict(_model_state(checkpoint, i), **model_options)
    place = Stored.whole if is_sharded(accelerator) else _own  # a sharded optimizer copies its blocks
    for i, optimizer in enumerate(accelerator.prepared_optimizers):
        optimizer.load_state_dict(checkpoint.read(checkpoint.state["optimizers"][i], name_of("optimizer", i), place))
    _load_objects(accelerator, checkpoint)
    _load_progress(accelerator, checkpoint)


def _model_state(checkpoint: Checkpoint, index: int) -> Any:
    entry = checkpoint.state["models"][index]
    state = checkpoint.read(entry, name_of("model", index))
    if "versions" in entry and isinstance(state, OrderedDict):
        state._metadata = decode(entry["versions"], str)  # type: ignore[attr-defined]
    return state


def _load_objects(accelerator: Checkpointing, checkpoint: Checkpoint) -> None:
    state = checkpoint.state
    for scheduler, entry in zip(accelerator._schedulers, state["schedulers"], strict=True):
        scheduler.load_state_dict(_copied(checkpoint, entry))
    of_stage = own_states(accelerator, checkpoint)
    for i, (item, entry) in enumerate(zip(accelerator._custom_objects, state["custom"], strict=True)):
        item.load_state_dict(of_stage[i] if of_stage is not None else _copied(checkpoint, entry))
    if state["scaler"] is not None and accelerator.precision.scaler is not None:
        accelerator.precision.scaler.load_state_dict(_copied(checkpoint, {"plain": state["scaler"]}))
    accelerator.counters.clear()
    accelerator.counters.update(_copied(checkpoint, {"plain": state["counters"]}))


def _copied(checkpoint: Checkpoint, entry: Any) -> Any:
    return checkpoint.read(entry, SHARED, _own)


def _own(stored: Stored) -> torch.Tensor:
    """A tensor that outlives the file."""
    return stored.whole().clone()


def _load_progress(accelerator: Checkpointing, checkpoint: Checkpoint) -> None:
    state, then = checkpoint.state, checkpoint.manifest.processes
    accelerator.load_epoch_state(state["epochs"])
    accelerator.accumulation.load_window_state(state["accumulation"])
    ranks = [checkpoint.rank] if checkpoint.same_number else range(then)
    gradients = [checkpoint.owned("gradients", rank) for rank in ranks]
    accelerator.accumulation.unstepped = any(gradients)
    load_gradients(accelerator, gradients, 1 if checkpoint.same_number else then // checkpoint.stages)
    now = checkpoint.owned("streams")
    states = checkpoint.owned("loaders")
    for loader_state in states:
        if loader_state["position"] is not None:
            loader_state["position"]["now"] = (now["host"], loader_state["own"])
    load_loaders(accelerator._dataloaders, states, (state["processes"], accelerator.num_processes))
    streams.put(accelerator.world, now)
