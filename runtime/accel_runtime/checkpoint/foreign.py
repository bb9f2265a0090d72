"""Folders that Hugging Face's Accelerate has saved: they have no manifest, so what can be verified is that all files are there.

Their positions in loaders are not read: training goes on at the beginning of an epoch, or where the script skips to.
"""

from __future__ import annotations

import pickle
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from .capture import name_of
from .errors import CheckpointError
from .manifest import NAME
from .tensor_files import TensorFile
from .weights import shared_with
from .writing import together

if TYPE_CHECKING:
    from .control import Checkpointing


def is_foreign(folder: Path) -> bool:
    """Whether this is a state saved by Accelerate."""
    return not (folder / NAME).exists() and (folder / "random_states_0.pkl").is_file()


def load_foreign(accelerator: Checkpointing, folder: Path, weights_only: bool, **model_options: Any) -> None:
    """Load models, optimizers, schedulers, scaler, registered objects and random streams; read everything, then change anything.

    Raises:
        CheckpointError: a file is missing, damaged, or holds objects that need unpickling.
    """
    models = list(accelerator._models)
    for hook in accelerator._load_hooks.values():
        hook(models, str(folder))
    targets: list[tuple[Any, str]] = [
        (o, f"{name_of('optimizer', i)}.bin") for i, o in enumerate(accelerator.prepared_optimizers)
    ]
    targets += [(s, f"{name_of('scheduler', i)}.bin") for i, s in enumerate(accelerator._schedulers)]
    targets += [(o, f"custom_checkpoint_{i}.pkl") for i, o in enumerate(accelerator._custom_objects)]
    if accelerator.precision.scaler is not None and (folder / "scaler.pt").exists():
        targets.append((accelerator.precision.scaler, "scaler.pt"))
    states: list[Any] = []

    def read() -> None:
        states.extend(_model_state(folder, model, i) for i, model in enumerate(models))
        states.extend(_unpickled(folder / name, weights_only) for _, name in targets)
        states.append(_streams(folder, accelerator.process_index))

    together(accelerator.world, read, "")
    for model, state in zip(models, states, strict=False):
        getattr(model, "_orig_mod", model).load_state_dict(state, **model_options)
    for (target, _), state in zip(targets, states[len(models) :], strict=False):
        target.load_state_dict(state)
    _put_streams(states[-1])


def _model_state(folder: Path, model: Any, index: int) -> dict[str, Any]:
    path = folder / f"{name_of('model', index)}.safetensors"
    if not path.exists():
        return _unpickled(folder / f"{name_of('pytorch_model', index)}.bin", weights_only=True)
    file = TensorFile(path)
    state = {name: file.tensor(name) for name in file.entries}
    return state | shared_with(state, getattr(model, "_orig_mod", model))


def _unpickled(path: Path, weights_only: bool) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=weights_only)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
    except pickle.UnpicklingError as error:
        raise CheckpointError(
            f"{path} holds objects other than tensors and plain values, which could run code when they are read: "
            "if you trust the file, call load_state(..., load_kwargs={'weights_only': False})"
        ) from error


def _streams(folder: Path, rank: int) -> dict[str, Any]:
    """The streams of this process; those of the first where there were fewer processes."""
    path = folder / f"random_states_{rank}.pkl"
    with torch.serialization.safe_globals(_numpy_types()):
        return _unpickled(path if path.exists() else folder / "random_states_0.pkl", weights_only=True)


def _numpy_types() -> list[Any]:
    """What the state of NumPy's stream is pickled with."""
    try:
        import numpy
    except ImportError:
        return []
    module = getattr(numpy, "_core", None) or numpy.core
    return [numpy.ndarray, numpy.dtype, type(numpy.dtype("uint32")), module.multiarray._reconstruct]


def _put_streams(states: dict[str, Any]) -> None:
    random.setstate(states["random_state"])
    torch.set_rng_state(states["torch_manual_seed"])
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.set_state(states["numpy_random_seed"])
    if "torch_cuda_manual_seed" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(states["torch_cuda_manual_seed"][: torch.cuda.device_count()])
