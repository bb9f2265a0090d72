"""Load what another run has saved into the models and optimizers of this one, as `load_state_dict` does it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from accel_migrate.verify.hooks import state
from accel_migrate.verify.hooks.unpickled import TORCH_SUFFIXES, load_pickled


def load_all(files: list[str]) -> Iterator[dict[str, str]]:
    """{"file", "what", "error"} for each state of a model or optimizer in them that one of this run corresponds to."""
    for file in files:
        if file.lower().endswith(TORCH_SUFFIXES) and os.path.isfile(file):
            try:
                saved = load_pickled(Path(file))
            except Exception:  # it is no checkpoint: its content is compared, or said not to be
                continue
            yield from ({"file": file, **found} for found in _loaded(saved, "", 0))


def _loaded(saved: Any, at: str, depth: int) -> Iterator[dict[str, str]]:
    if not isinstance(saved, Mapping) or depth > 3:
        return
    taker = _model_for(saved) or _optimizer_for(saved)
    if taker is not None:
        yield {"what": f"{at or 'the state'} into {type(taker).__name__}", "error": _error(taker, saved)}
        return
    for key, value in saved.items():
        yield from _loaded(value, f"{at}.{key}" if at else str(key), depth + 1)


def _error(taker: Any, saved: Any) -> str:
    try:
        taker.load_state_dict(saved)
    except Exception as error:
        return _line(error)
    return ""


def _model_for(saved: Mapping[Any, Any]) -> Any:
    """The trained model, without the wrapper of its processes, that has most of these tensors, by key and shape, else by key, else by shape."""
    import torch

    if not saved or not all(isinstance(key, str) and isinstance(value, torch.Tensor) for key, value in saved.items()):
        return None
    models = [_unwrapped(model) for model in state.models()]
    keys, named = {_bare(key) for key in saved}, {(_bare(key), value.shape) for key, value in saved.items()}
    common = [(len(named & _named(model)), len(keys & {key for key, _ in _named(model)}), place) for place, model in enumerate(models)]
    best = max(common, default=(0, 0, 0))
    if best[1]:
        return models[best[2]]
    return next((model for model in models if _shapes(model.state_dict()) == _shapes(saved)), None)


def _named(model: Any) -> set[tuple[str, Any]]:
    return {(_bare(key), value.shape) for key, value in model.state_dict().items() if hasattr(value, "shape")}


def _shapes(values: Mapping[str, Any]) -> list[tuple[int, ...]]:
    return sorted(tuple(value.shape) for value in values.values() if hasattr(value, "shape"))


def _optimizer_for(saved: Mapping[Any, Any]) -> Any:
    """The first optimizer with groups of the same sizes."""
    if set(saved) != {"state", "param_groups"} or not all(isinstance(group, dict) for group in saved["param_groups"]):
        return None
    sizes = [len(group.get("params", ())) for group in saved["param_groups"]]
    return next((o for o in state.optimizers() if [len(group["params"]) for group in o.param_groups] == sizes), None)


def _unwrapped(model: Any) -> Any:
    return model.module if type(model).__name__ in ("DistributedDataParallel", "DataParallel") else model


def _bare(key: str) -> str:
    return key.replace("_orig_mod.", "").removeprefix("module.")


def _line(error: Exception) -> str:
    """An exception in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]
