"""Reading a checkpoint into a model tensor by tensor, each to its place."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..checkpoint.tensor_files import TensorFile
from ..utils.offload import offload_weight
from .device_map import place_of

Folder = str | os.PathLike[str]


def load_checkpoint_in_model(
    model: nn.Module,
    checkpoint: Folder,
    device_map: Mapping[str, Any] | None = None,
    offload_folder: Folder | None = None,
    dtype: torch.dtype | None = None,
    strict: bool = False,
) -> None:
    """Read `checkpoint`, a file or a folder of `save_model`, tensor by tensor to where `device_map` says; `model` may be on "meta".

    Raises:
        ValueError: it holds no weights; tensors of other shapes; with `strict` also missing or unknown names.
    """
    known = {
        **dict(model.named_parameters(remove_duplicate=False)),
        **dict(model.named_buffers(remove_duplicate=False)),
    }
    same = names_of_the_same(known)
    index = index_of(offload_folder) if offload_folder is not None else {}
    seen: set[str] = set()
    for name, value in _tensors_in(checkpoint):
        if name not in known:
            if strict:
                raise ValueError(f"{checkpoint} holds {name!r}, which {type(model).__name__} does not have")
            continue
        if value.shape != known[name].shape:
            raise ValueError(
                f"{name} has shape {tuple(value.shape)} in {checkpoint}, and {tuple(known[name].shape)} in {type(model).__name__}"
            )
        value = value.to(dtype) if dtype is not None and value.is_floating_point() else value
        seen.update(same[name])
        place = place_of(name, device_map) if device_map else _at(known[name])
        if place == "disk" and offload_folder is not None and isinstance(known[name], nn.Parameter):
            Path(offload_folder).mkdir(parents=True, exist_ok=True)
            index = offload_weight(value, same[name][0], offload_folder, index)
            value = torch.empty_like(value, device="meta")
        else:
            value = value.to(named("cpu" if place == "disk" else place))
        _replace(model, same[name], known[name], value)
    if offload_folder is not None and index:
        Path(offload_folder, "index.json").write_text(json.dumps(index, indent=2))
    missing = sorted(set(known) - seen - _not_saved(model))
    if missing and (strict or any(known[name].is_meta for name in missing)):
        raise ValueError(f"{checkpoint} lacks {', '.join(missing[:5])}")


def _replace(model: nn.Module, names: list[str], known: torch.Tensor, value: torch.Tensor) -> None:
    new = (
        nn.Parameter(value, requires_grad=known.requires_grad and value.is_floating_point())
        if isinstance(known, nn.Parameter)
        else value
    )
    for name in names:
        owner, _, own = name.rpartition(".")
        module = model.get_submodule(owner)
        (module._parameters if own in module._parameters else module._buffers)[own] = new  # type: ignore[index]


def _tensors_in(checkpoint: Folder) -> Iterator[tuple[str, torch.Tensor]]:
    for file in _files(Path(checkpoint)):
        if file.suffix == ".safetensors":
            opened = TensorFile(file)
            yield from ((name, opened.tensor(name).clone()) for name in opened.entries)
        else:
            yield from torch.load(file, map_location="cpu", weights_only=True).items()


def _files(checkpoint: Path) -> list[Path]:
    if checkpoint.is_file() and checkpoint.suffix != ".json":
        return [checkpoint]
    for name in ("model.safetensors", "pytorch_model.bin"):
        if (checkpoint / name).is_file():
            return [checkpoint / name]
    indexes = [checkpoint] if checkpoint.is_file() else sorted(checkpoint.glob("*.index.json"))
    if not indexes:
        raise ValueError(
            f"{checkpoint} has no weights: no model.safetensors, no pytorch_model.bin, no index of several files"
        )
    listed = json.loads(indexes[0].read_text())["weight_map"]
    return [indexes[0].parent / name for name in dict.fromkeys(listed.values())]


def index_of(folder: Folder) -> dict[str, Any]:
    """What `offload_weight` has written into the folder."""
    file = Path(folder, "index.json")
    return json.loads(file.read_text()) if file.is_file() else {}


def names_of_the_same(known: Mapping[str, torch.Tensor]) -> dict[str, list[str]]:
    """All names of the tensor that has this one."""
    groups: dict[int, list[str]] = {}
    for name, tensor in known.items():
        groups.setdefault(id(tensor), []).append(name)
    return {name: groups[id(tensor)] for name, tensor in known.items()}


def _not_saved(model: nn.Module) -> set[str]:
    return {
        join(prefix, name) for prefix, module in model.named_modules() for name in module._non_persistent_buffers_set
    }


def _at(tensor: torch.Tensor) -> Any:
    return "cpu" if tensor.is_meta else tensor.device


def named(place: Any) -> Any:
    """An index is that of an accelerator."""
    return f"{torch.accelerator.current_accelerator() or 'cuda'}:{place}" if isinstance(place, int) else place


def join(prefix: str, name: str) -> str:
    """A tensor's full name."""
    return f"{prefix}.{name}" if prefix else name
