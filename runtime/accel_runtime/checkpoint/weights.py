"""Models alone, as files that other libraries read: `save_model`, `load_model`.

One file, or several of a limited size with an index, under Hugging Face's names. Each file is replaced whole, the index last.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..utils.other import clean_state_dict_for_safetensors
from .disk import sync_folder
from .errors import CheckpointError
from .stored import Stored, add_file
from .tensor_files import TensorFile, write_tensors
from .writing import naming

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
SAFE, PICKLED = "model.safetensors", "pytorch_model.bin"


def bytes_in(size: int | str) -> int:
    """A number of bytes: `5`, "5MB", "5GiB".

    Raises:
        ValueError: it is no such size.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?I?)B?", str(size).strip().upper())
    if not found or found[2] not in _UNITS:
        raise ValueError(f"max_shard_size is {size!r}: it must be a number of bytes, or one with a unit such as '5GB'")
    return int(float(found[1]) * _UNITS[found[2]])


def write_model(state: dict[str, torch.Tensor], folder: Path, max_shard_size: int | str, safe: bool) -> list[str]:
    """Write the weights; returns the names of the files, and removes those of an earlier save."""
    folder.mkdir(parents=True, exist_ok=True)
    limit, name = bytes_in(max_shard_size), SAFE if safe else PICKLED
    state = clean_state_dict_for_safetensors(state) if safe else state
    shards = _shards(state, limit)
    stem, suffix = name.rsplit(".", 1)
    names = (
        [name]
        if len(shards) == 1
        else [f"{stem}-{i + 1:05d}-of-{len(shards):05d}.{suffix}" for i in range(len(shards))]
    )
    for shard, file in zip(shards, names, strict=True):
        part = {key: state[key] for key in shard}
        _replace(
            folder / file,
            (lambda path, part=part: write_tensors(path, part))
            if safe
            else (lambda path, part=part: torch.save(part, path)),
        )
    if len(shards) > 1:
        places = {key: file for shard, file in zip(shards, names, strict=True) for key in shard}
        index = {
            "metadata": {"total_size": sum(_size(t) for t in state.values())},
            "weight_map": dict(sorted(places.items())),
        }
        _replace(
            folder / f"{name}.index.json",
            lambda path: path.write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8"),
        )
        names.append(f"{name}.index.json")
    _remove_earlier(folder, stem, suffix, names)
    sync_folder(folder)
    return names


def read_model(folder: Path, model: nn.Module | None = None) -> dict[str, Any]:
    """The weights in `folder`, verified where they were written with checksums.

    Weights that `model` shares and the file holds once, since its format has no sharing, are given under all their names.

    Raises:
        CheckpointError: there are none, or a file is missing or damaged.
    """
    state = _found(folder)
    if state is None:
        raise CheckpointError(f"{folder} holds no model: there is neither {SAFE} nor {PICKLED}, nor an index of parts")
    return state if model is None else state | shared_with(state, model)


def _found(folder: Path) -> dict[str, Any] | None:
    for name in (SAFE, PICKLED):
        index = folder / f"{name}.index.json"
        if index.is_file():
            return _indexed(folder, index, name == SAFE)
        if (folder / name).is_file():
            return _file(folder / name, name == SAFE)
    blocks = sorted(folder.glob("model-*-of-*.safetensors"))
    return _joined(blocks) if blocks else None


def shared_with(state: dict[str, Any], model: nn.Module) -> dict[str, Any]:
    """What is missing of `state`, where it is the same tensor of the model under another name."""
    present = {id(value): name for name, value in model.state_dict(keep_vars=True).items() if name in state}
    return {
        name: state[present[id(value)]]
        for name, value in model.state_dict(keep_vars=True).items()
        if name not in state and id(value) in present
    }


def _indexed(folder: Path, index: Path, safe: bool) -> dict[str, Any]:
    try:
        names = dict.fromkeys(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise CheckpointError(f"{index} is damaged: {error}") from error
    state: dict[str, Any] = {}
    for name in names:
        if not isinstance(name, str) or Path(name).name != name:
            raise CheckpointError(f"{index} names a file outside the folder, {name!r}: do not load it")
        state |= _file(folder / name, safe)
    return state


def _file(path: Path, safe: bool) -> dict[str, Any]:
    if not safe:
        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        except OSError as error:
            raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
    file = TensorFile(path)
    return {name: file.tensor(name) for name in file.entries}


def _joined(paths: list[Path]) -> dict[str, Any]:
    found: dict[str, Stored] = {}
    for path in paths:
        add_file(found, TensorFile(path))
    return {name: stored.whole() for name, stored in found.items()}


def _shards(state: dict[str, torch.Tensor], limit: int) -> list[list[str]]:
    """The names in their order, cut where a file would grow beyond `limit` bytes; a larger tensor has a file of its own."""
    shards: list[list[str]] = [[]]
    filled = 0
    for name, tensor in state.items():
        size = _size(tensor)
        if shards[-1] and filled + size > limit:
            shards.append([])
            filled = 0
        shards[-1].append(name)
        filled += size
    return shards


def _size(value: Any) -> int:
    return value.numel() * value.element_size() if isinstance(value, torch.Tensor) else 0


def _replace(path: Path, write: Callable[[Path], Any]) -> None:
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with naming(path):
            write(partial)
            os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _remove_earlier(folder: Path, stem: str, suffix: str, names: list[str]) -> None:
    earlier = re.compile(rf"{stem}(-\d{{5}}-of-\d{{5}})?\.{suffix}(\.index\.json)?")
    for path in list(folder.iterdir()):
        if earlier.fullmatch(path.name) and path.name not in names:
            path.unlink()
