"""Load what a script saved, in another process, where the classes of its `__main__` do not exist."""

from __future__ import annotations

import pickle
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any
from zipfile import ZipFile, is_zipfile

_PICKLES = (".pkl", ".pickle")
TORCH_SUFFIXES = (".pt", ".pth", ".bin", ".ckpt", ".tar", ".model", *_PICKLES)


class StandIn:
    """Takes the place of a class that cannot be imported here; keeps the state that was pickled."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args, self.kwargs = args, kwargs


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return super().find_class(module, name)
        except (AttributeError, ImportError):
            return type(name, (StandIn,), {"__module__": module})


def is_saved(path: Path) -> bool:
    """Whether `torch.save` wrote it, by its content: many give it a name without an ending."""
    if not is_zipfile(path):
        return False
    with ZipFile(path) as archive:
        return any(name.endswith("/data.pkl") for name in archive.namelist())


def load_saved(path: Path) -> dict[str, Any]:
    """What a `torch.save` file holds, as leaves by path: `model.0.weight`, `optimizer.state.0.exp_avg`, `epoch`."""
    return dict(_leaves(load_pickled(path), "", set()))


def load_pickled(path: Path) -> Any:
    """What a `torch.save` file holds, on the CPU, or one of `pickle.dump`."""
    import torch

    if path.suffix.lower() in _PICKLES and not is_zipfile(path):
        with path.open("rb") as file:
            return _Unpickler(file).load()
    module = ModuleType("pickle_with_stand_ins")
    module.Unpickler, module.load = _Unpickler, pickle.load  # type: ignore[attr-defined]
    return torch.load(path, map_location="cpu", pickle_module=module, weights_only=False)


def _leaves(value: Any, at: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, weakref.ReferenceType):
        value = value()
    children = _children(value)
    if children is None:
        yield at or "value", _as_tensor(value)
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    yield f"{at}:type", _kind(value)
    for key, child in children.items():
        yield from _leaves(child, f"{at}.{key}" if at else str(key), seen)


def _children(value: Any) -> Mapping[Any, Any] | None:
    """What a value is made of, None for a leaf."""
    import torch

    if isinstance(value, Mapping):
        return value
    if isinstance(value, (list, tuple)):
        return dict(enumerate(value))
    is_function = callable(value) and not isinstance(value, torch.nn.Module)
    if isinstance(value, torch.Tensor) or is_function or not hasattr(value, "__dict__"):
        return None
    return vars(value)


def _as_tensor(value: Any) -> Any:
    import numpy as np
    import torch

    return torch.from_numpy(value) if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" else value


def _kind(value: Any) -> str:
    return "dict" if isinstance(value, dict) else type(value).__qualname__
