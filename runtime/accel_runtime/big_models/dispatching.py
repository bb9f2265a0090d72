"""Spreading a model over devices, the host's memory and files: `dispatch_model` and what is built on it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..utils.offload import OffloadedWeightsLoader, offload_weight
from .device_map import OFF_DEVICE, infer_auto_device_map, place_of
from .loading import Folder, index_of, join, load_checkpoint_in_model, named, names_of_the_same
from .offloading import Placed, put, release


def dispatch_model(
    model: nn.Module,
    device_map: Mapping[str, Any],
    main_device: Any = None,
    offload_dir: Folder | None = None,
    offload_buffers: bool = False,
) -> nn.Module:
    """Put each module where `device_map` says; the same object is returned, for inference.

    Modules of "cpu" (where the map has a device too) and "disk" are computed on the main device: their parameters are brought in for
    each forward pass. Inputs of every module follow it to its device.

    Args:
        model: weights on the "meta" device must be in `offload_dir` already.
        main_device: default: the first of the map that is neither "cpu" nor "disk", else the CPU.
        offload_dir: for the parameters of "disk".
        offload_buffers: bring in buffers, too, instead of leaving them on the main device.

    Raises:
        ValueError: a module without a place; "disk" without a folder; a weight that is nowhere.
    """
    places = {name: place_of(name, device_map) for name, module in model.named_modules() if _own(module, True)}
    if "disk" in places.values() and offload_dir is None:
        raise ValueError(
            "device_map puts modules on 'disk': give the folder for their weights (offload_dir, offload_folder)"
        )
    release(model)
    main = torch.device(named(main_device if main_device is not None else _main(device_map.values())))
    first_names = _first_names(model)
    host: dict[str, torch.Tensor] = {}
    blanks: dict[str, torch.Tensor] = {}
    index = index_of(offload_dir) if offload_dir is not None else {}
    for name, module in model.named_modules():
        if name not in places:
            continue
        place = places[name]
        away = place == "disk" or (place == "cpu" and main.type != "cpu")
        names = {own: first_names[join(name, own)] for own in _own(module, offload_buffers)} if away else {}
        for own, full in names.items():
            _send_away(getattr(module, own), full, place, host, offload_dir, index)
        device = main if away else torch.device(named(place))
        for own in _own(module, True):
            if own not in names:
                _put_on(module, own, device)
        Placed(module, device, _away(host, offload_dir, index) if names else None, names, blanks)
    if offload_dir is not None and index:
        Path(offload_dir, "index.json").write_text(json.dumps(index, indent=2))
    model.hf_device_map = dict(device_map)  # type: ignore[assignment]
    return model


def cpu_offload(model: nn.Module, execution_device: Any = None, offload_buffers: bool = False) -> nn.Module:
    """Keep all parameters in the host's memory, and compute on `execution_device`."""
    return dispatch_model(model, {"": "cpu"}, execution_device, offload_buffers=offload_buffers)


def disk_offload(
    model: nn.Module, offload_dir: Folder, execution_device: Any = None, offload_buffers: bool = False
) -> nn.Module:
    """Keep all parameters in files of `offload_dir`, and compute on `execution_device`."""
    return dispatch_model(model, {"": "disk"}, execution_device, offload_dir, offload_buffers)


def load_checkpoint_and_dispatch(
    model: nn.Module,
    checkpoint: Folder,
    device_map: Mapping[str, Any] | str | None = None,
    max_memory: Mapping[Any, int | str] | None = None,
    no_split_module_classes: Iterable[str] | str | None = None,
    offload_folder: Folder | None = None,
    offload_buffers: bool = False,
    dtype: torch.dtype | None = None,
    strict: bool = False,
) -> nn.Module:
    """`load_checkpoint_in_model`, then `dispatch_model`; a `device_map` of "auto" is inferred.

    Raises:
        ValueError: see there; a name for `device_map` other than "auto", "balanced", "balanced_low_0" or "sequential".
    """
    release(model)
    if isinstance(device_map, str):
        if device_map not in ("auto", "balanced", "balanced_low_0", "sequential"):
            raise ValueError(f"device_map is {device_map!r}: it must be 'auto' or a dict of modules and devices")
        device_map = infer_auto_device_map(model, max_memory, no_split_module_classes, dtype)
    load_checkpoint_in_model(model, checkpoint, device_map, offload_folder, dtype, strict)
    return model if device_map is None else dispatch_model(model, device_map, None, offload_folder, offload_buffers)


def _send_away(
    tensor: torch.Tensor,
    name: str,
    place: str,
    host: dict[str, torch.Tensor],
    folder: Folder | None,
    index: dict[str, Any],
) -> None:
    if place == "disk" and not tensor.is_meta:
        assert folder is not None
        Path(folder).mkdir(parents=True, exist_ok=True)
        index.update(offload_weight(tensor, name, folder))
    elif place == "cpu" and not tensor.is_meta:
        host[name] = tensor.detach().cpu()
    elif name not in host and name not in index:
        raise ValueError(f"{name} is on the 'meta' device and not in the folder for weights: load a checkpoint first")


def _away(host: dict[str, torch.Tensor], folder: Folder | None, index: dict[str, Any]) -> Mapping[str, torch.Tensor]:
    return host if not index else OffloadedWeightsLoader(host, folder, index)


def _put_on(module: nn.Module, name: str, device: torch.device) -> None:
    """Move a tensor of `module`; a parameter that several modules share stays one."""
    tensor = getattr(module, name)
    if tensor.device == device or (device.index is None and tensor.device.type == device.type):
        return
    if tensor.is_meta:
        raise ValueError(
            f"{type(module).__name__}.{name} is on the 'meta' device: load a checkpoint before the model is dispatched"
        )
    if isinstance(tensor, nn.Parameter) and device.type != "meta":
        tensor.data = tensor.data.to(device)
    else:
        put(module, name, tensor.detach().to(device), trains=tensor.requires_grad)


def _own(module: nn.Module, buffers: bool) -> list[str]:
    found = [name for name, value in module._parameters.items() if value is not None]
    return found + ([name for name, value in module._buffers.items() if value is not None] if buffers else [])


def _first_names(model: nn.Module) -> dict[str, str]:
    known = {
        **dict(model.named_parameters(remove_duplicate=False)),
        **dict(model.named_buffers(remove_duplicate=False)),
    }
    return {name: names[0] for name, names in names_of_the_same(known).items()}


def _main(places: Iterable[Any]) -> Any:
    return next((place for place in places if place not in OFF_DEVICE), "cpu")
