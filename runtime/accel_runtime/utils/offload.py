"""Weights kept in files, one for each tensor, and read when they are asked for: `accelerate.utils.offload`'s names."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

_INDEX = "index.json"
Folder = str | os.PathLike[str]


def offload_weight(
    weight: torch.Tensor, weight_name: str, offload_folder: Folder, index: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Write `weight` to `weight_name.dat`; `index`, with its shape and type added, is returned."""
    weight = weight.detach().cpu()
    path = Path(offload_folder, f"{weight_name}.dat")
    path.unlink(missing_ok=True)
    if weight.numel():
        torch.from_file(str(path), shared=True, size=weight.numel(), dtype=weight.dtype).copy_(weight.reshape(-1))
    else:
        path.touch()
    described = {weight_name: {"shape": list(weight.shape), "dtype": str(weight.dtype).removeprefix("torch.")}}
    return {**(index or {}), **described}


def load_offloaded_weight(weight_file: Folder, weight_info: Mapping[str, Any]) -> torch.Tensor:
    """The tensor in `weight_file`, mapped into memory, by its entry in the index."""
    dtype = getattr(torch, weight_info["dtype"])
    shape = torch.Size(weight_info["shape"])
    if not shape.numel():
        return torch.empty(shape, dtype=dtype)
    return torch.from_file(os.fspath(weight_file), shared=False, size=shape.numel(), dtype=dtype).view(shape)


def offload_state_dict(save_dir: Folder, state_dict: Mapping[str, torch.Tensor]) -> None:
    """Write all tensors of `state_dict` and their index into the folder, which is made."""
    os.makedirs(save_dir, exist_ok=True)
    index: dict[str, Any] = {}
    for name, weight in state_dict.items():
        index = offload_weight(weight, name, save_dir, index)
    Path(save_dir, _INDEX).write_text(json.dumps(index, indent=2))


class OffloadedWeightsLoader(Mapping[str, torch.Tensor]):
    """Tensors by name, some at hand and the others in a folder; those at hand go first.

    Args:
        state_dict: what is at hand.
        save_folder: a folder that `offload_state_dict` has written.
        index: what that folder holds; None: its `index.json`.
        device: where tensors from the folder are put; None: the host.

    Raises:
        ValueError: neither of the first three was given.
    """

    def __init__(
        self,
        state_dict: Mapping[str, torch.Tensor] | None = None,
        save_folder: Folder | None = None,
        index: Mapping[str, Any] | None = None,
        device: Any = None,
    ) -> None:
        if state_dict is None and save_folder is None and index is None:
            raise ValueError("OffloadedWeightsLoader needs a state_dict, a save_folder or an index")
        self.state_dict = dict(state_dict or {})
        self.save_folder = save_folder
        if index is None and save_folder is not None:
            index = json.loads(Path(save_folder, _INDEX).read_text())
        self.index = dict(index or {})
        self.device = device
        self.all_keys = list(dict.fromkeys([*self.state_dict, *self.index]))

    def __getitem__(self, key: str) -> torch.Tensor:
        if key in self.state_dict:
            return self.state_dict[key]
        info = self.index[key]
        if "safetensors_file" in info:
            from ..checkpoint.tensor_files import TensorFile

            stored = TensorFile(Path(info["safetensors_file"])).tensor(info.get("weight_name", key))
            return stored.to(self.device or "cpu", copy=True)
        assert self.save_folder is not None
        weight = load_offloaded_weight(Path(self.save_folder, f"{key}.dat"), info)
        return weight if self.device is None else weight.to(self.device)

    def __iter__(self) -> Iterator[str]:
        return iter(self.all_keys)

    def __len__(self) -> int:
        return len(self.all_keys)


def extract_submodules_state_dict(state_dict: Mapping[str, Any], submodule_names: Iterable[str]) -> dict[str, Any]:
    """The entries of `state_dict` that are one of the names or lie inside of it."""
    wanted = tuple(submodule_names)
    return {
        key: value
        for key, value in state_dict.items()
        if any(key == name or key.startswith(f"{name}.") for name in wanted)
    }
