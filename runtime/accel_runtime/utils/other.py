"""Odds and ends: unwrapping, saving, merging, waiting."""

from __future__ import annotations

import functools
import logging
import os
import platform
import re
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..collectives import barrier
from ..world import World

logger = logging.getLogger(__name__)


def wait_for_everyone() -> None:
    """Wait until every process has come here."""
    barrier(World.from_environment())


def is_compiled_module(module: Any) -> bool:
    """Whether this is what `torch.compile(module)` returned."""
    return hasattr(module, "_orig_mod")


def extract_model_from_parallel(
    model: nn.Module, keep_fp32_wrapper: bool = True, keep_torch_compile: bool = True, recursive: bool = False
) -> nn.Module:
    """The model inside torch's wrappers (`DataParallel`, `DistributedDataParallel`, `torch.compile`).

    `keep_torch_compile` puts a compiled wrapper's inside back under compilation as it was; `recursive` unwraps children too.
    """
    compiled = model if is_compiled_module(model) else None
    if compiled is not None:
        model = model._orig_mod  # type: ignore[assignment]
    while isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
        model = model.module
    if recursive:
        for name, child in model.named_children():
            setattr(model, name, extract_model_from_parallel(child, keep_fp32_wrapper, keep_torch_compile, True))
    if not keep_fp32_wrapper and "_original_forward" in vars(model):
        model.forward = vars(model).pop("_original_forward")
    if compiled is None or not keep_torch_compile:
        return model
    compiled._orig_mod = model
    return compiled


def save(obj: Any, f: Any, save_on_each_node: bool = False, safe_serialization: bool = False) -> None:
    """Save on the main process (of each machine); a file appears complete or not at all.

    `safe_serialization` writes a state dictionary in the safetensors format.
    """
    world = World.from_environment()
    if not (world.is_local_main if save_on_each_node else world.is_main):
        return
    if not isinstance(f, (str, os.PathLike)):
        torch.save(obj, f)
        return
    if safe_serialization:
        from ..checkpoint.tensor_files import write_tensors

        tensors = clean_state_dict_for_safetensors(obj)
        write: Any = lambda path: write_tensors(Path(path), tensors)  # noqa: E731
    else:
        write = functools.partial(torch.save, obj)
    _write_whole(write, os.path.abspath(os.fspath(f)))


def _write_whole(write: Any, path: str) -> None:
    with tempfile.TemporaryDirectory(prefix=".saving-", dir=os.path.dirname(path)) as folder:
        partial = os.path.join(folder, os.path.basename(path))
        write(partial)
        os.replace(partial, path)


def clean_state_dict_for_safetensors(state_dict: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors, each stored once and contiguous: that format has no shared memory. Names left out are logged."""
    seen: dict[Any, str] = {}
    kept = {}
    removed = []
    for name, tensor in state_dict.items():
        memory = (tensor.untyped_storage()._cdata, tensor.storage_offset(), tensor.shape, tensor.stride()) if tensor.numel() else name
        if memory in seen:
            removed.append(name)
        else:
            seen[memory] = name
            kept[name] = tensor.contiguous()
    if removed:
        logger.warning("Removed shared tensor %s while saving: it is stored under another name.", set(removed))
    return kept


def load(f: Any, map_location: Any = None, **kwargs: Any) -> Any:
    """`torch.load`, of weights only unless said otherwise."""
    return torch.load(f, map_location=map_location, **{"weights_only": True, **kwargs})


def merge_dicts(source: dict[Any, Any], destination: dict[Any, Any]) -> dict[Any, Any]:
    """Merge `source` into `destination`, dictionaries inside as well; return `destination`."""
    for key, value in source.items():
        if isinstance(value, dict):
            merge_dicts(value, destination.setdefault(key, {}))
        else:
            destination[key] = value
    return destination


def get_pretty_name(obj: Any) -> str:
    """The name of a class or function, or of an object's class."""
    named = obj if hasattr(obj, "__qualname__") or hasattr(obj, "__name__") else type(obj)
    return str(getattr(named, "__qualname__", getattr(named, "__name__", obj)))


def convert_bytes(size: float) -> str:
    """A number of bytes for a person."""
    for unit in ("bytes", "KB", "MB", "GB", "TB"):
        if size < 1024:
            return f"{round(size, 2)} {unit}"
        size /= 1024
    return f"{round(size, 2)} PB"


def recursive_getattr(obj: Any, attr: str) -> Any:
    """`obj.a.b.c` for "a.b.c"."""
    return functools.reduce(getattr, attr.split("."), obj)


def check_os_kernel() -> None:
    """Warn of Linux kernels before 5.5, on which data loader workers have been seen to hang."""
    info = platform.uname()
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", info.release)
    if info.system == "Linux" and found and tuple(map(int, found.groups())) < (5, 5, 0):
        logger.warning(f"Detected kernel version {found[0]}, which is below the recommended minimum of 5.5.0: processes may hang.")


def tqdm(*args: Any, main_process_only: bool = True, **kwargs: Any) -> Any:
    """A progress bar, by default on the first process of each machine only."""
    from tqdm.auto import tqdm as bar

    if main_process_only and not World.from_environment().is_local_main:
        kwargs["disable"] = True
    return bar(*args, **kwargs)
