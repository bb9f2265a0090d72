"""Which optimizers there are, how their parameters are called, and all of it at the end."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_optimizers: list[Any] = []
_models: list[Any] = []
"""Looked up when an optimizer steps first: at the end of the script its variables are gone."""
_randomness: set[str] = set()


def watch() -> None:
    """Begin anew, in a process that may be a fork of another run's."""
    _optimizers.clear()
    _models.clear()
    _randomness.clear()


def number_of(optimizer: Any) -> int:
    """Optimizers by the order of their first steps."""
    for number, known in enumerate(_optimizers):
        if known is optimizer:
            return number
    _optimizers.append(optimizer)
    _models[:] = _trained_models()
    return len(_optimizers) - 1


def optimizers() -> list[Any]:
    """Those that have stepped, in the order of their first steps."""
    return list(_optimizers)


def models() -> list[Any]:
    """The outermost modules that they train."""
    return list(_models)


def note_use(what: str) -> None:
    """A source of randomness was used."""
    _randomness.add(what)


def save_state(path: Path) -> None:
    """Save the names and values of all parameters that have been trained, and the buffers of the models they belong to."""
    import torch

    parameters = [
        (number, name, p.detach().cpu())
        for number, (optimizer, names) in enumerate(zip(_optimizers, parameter_names(), strict=True))
        for name, p in zip(names, _parameters(optimizer), strict=True)
    ]
    buffers = [
        (f"model {number}: {name}" if len(_models) > 1 else name, b.detach().cpu())
        for number, model in enumerate(_models)
        for name, b in _named(model.named_buffers())
    ]
    torch.save({"parameters": parameters, "buffers": buffers}, path)


def parameter_names() -> list[list[str]]:
    """For each optimizer the names of its parameters, by the models they belong to."""
    known = {id(p): name for model in _models for name, p in _named(model.named_parameters(remove_duplicate=False))}
    return [
        [known.get(id(p), f"parameter {place} of optimizer {number}") for place, p in enumerate(_parameters(optimizer))]
        for number, optimizer in enumerate(_optimizers)
    ]


def _parameters(optimizer: Any) -> list[Any]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _named(pairs: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Without the names that wrappers put in front."""
    for name, value in pairs:
        yield name.replace("_orig_mod.", "").removeprefix("module."), value


def _trained_models() -> list[Any]:
    """The outermost modules that hold a trained parameter, in the order of the optimizers' parameters."""
    import torch

    order = {id(p): n for n, p in enumerate(p for o in _optimizers for g in o.param_groups for p in g["params"])}
    modules = [m for m in gc.get_objects() if issubclass(type(m), torch.nn.Module) and "_modules" in vars(m)]
    inner = {id(child) for m in modules for child in m._modules.values()}
    first = {
        id(m): min((order[id(p)] for p in m.parameters() if id(p) in order), default=None)
        for m in modules
        if id(m) not in inner
    }
    roots = [m for m in modules if first.get(id(m)) is not None]
    return sorted(roots, key=lambda m: first[id(m)])


def uses() -> set[str]:
    """Sources of randomness that were used, and layers of the trained models whose effect depends on the batch."""
    import torch

    from accel_migrate.verify.hooks import precision

    precision.note_weights(p for optimizer in _optimizers for p in _parameters(optimizer))
    found = set(_randomness)
    for layer in (layer for model in _models for layer in model.modules()):
        if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm):
            found.add("batchnorm")
        rate = getattr(layer, "p", 0.0) if isinstance(layer, torch.nn.modules.dropout._DropoutNd) else getattr(layer, "dropout", 0.0)
        if isinstance(rate, float) and rate > 0:
            found.add("dropout")
    return found
