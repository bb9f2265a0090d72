"""Which module goes where: a greedy plan in the order of the modules, on one device after the other."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from ..checkpoint.weights import bytes_in

DeviceMap = dict[str, Any]
"""Module name ("" is the model) -> a device's index or name, "cpu" or "disk"."""
OFF_DEVICE = ("cpu", "disk")


def place_of(name: str, device_map: Mapping[str, Any]) -> Any:
    """The entry of the module that holds the tensor or module `name`: the innermost one.

    Raises:
        ValueError: no entry holds it.
    """
    parts = name.split(".")
    for end in range(len(parts), -1, -1):
        if (prefix := ".".join(parts[:end])) in device_map:
            return device_map[prefix]
    raise ValueError(f"device_map has no entry for {name!r}: name the module that holds it, or '' for the rest")


def free_memory() -> dict[Any, int]:
    """Bytes that are free now, by device: accelerators by index, then "cpu"."""
    found: dict[Any, int] = {index: torch.cuda.mem_get_info(index)[0] for index in range(torch.cuda.device_count())}
    found["cpu"] = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return found


def infer_auto_device_map(
    model: nn.Module,
    max_memory: Mapping[Any, int | str] | None = None,
    no_split_module_classes: Iterable[str] | str | None = None,
    dtype: torch.dtype | None = None,
) -> DeviceMap:
    """Fill the devices in the order of `max_memory`, and what is left goes to "disk".

    On the first device there stays room for the largest module that is brought in from the host or from files. Weights that several
    modules share count once.

    Args:
        model: may be on the "meta" device.
        max_memory: bytes, or sizes such as "10GB", by device; default: what is free.
        no_split_module_classes: names of classes whose modules stay in one piece, such as blocks with residual connections.
        dtype: in which the weights will be; default: theirs.
    """
    whole = (
        [no_split_module_classes] if isinstance(no_split_module_classes, str) else list(no_split_module_classes or ())
    )
    room = {device: bytes_in(size) for device, size in (max_memory or free_memory()).items()}
    plan = _filled(model, room, whole, dtype)
    devices = [device for device in room if device not in OFF_DEVICE]
    if devices and any(device in OFF_DEVICE for device in plan.values()):
        largest = max(_bytes(module, dtype, set()) for _, module in _pieces(model, whole))
        plan = _filled(model, {**room, devices[0]: max(room[devices[0]] - largest, 0)}, whole, dtype)
    return _joined(model, plan)


def _filled(model: nn.Module, room: Mapping[Any, int], whole: list[str], dtype: torch.dtype | None) -> DeviceMap:
    plan: DeviceMap = {}
    counted: set[int] = set()
    left = [*room.items()]
    waiting: list[tuple[str, nn.Module | torch.Tensor]] = [("", model)]
    while waiting:
        name, item = waiting.pop(0)
        size = _bytes(item, dtype, counted)
        device, free = left[0] if left else ("disk", size)
        if size <= free:
            plan[name] = device
            counted.update(map(id, _tensors(item)))
            left[:1] = [(device, free - size)] if left else []
        elif isinstance(item, nn.Module) and _splits(item, whole):
            waiting[:0] = [(f"{name}.{key}" if name else key, part) for key, part in _parts(item)]
        else:
            left.pop(0)
            waiting.insert(0, (name, item))
    return plan


def _joined(model: nn.Module, plan: DeviceMap) -> DeviceMap:
    """The plan with one entry for modules whose parts are all in one place."""
    for name in reversed([name for name, _ in model.named_modules()]):
        inside = [key for key in plan if not name or key == name or key.startswith(f"{name}.")]
        if inside and len({plan[key] for key in inside}) == 1:
            place = plan[inside[0]]
            plan = {key: value for key, value in plan.items() if key not in inside} | {name: place}
    order = {name: index for index, name in enumerate(["", *(name for name, _ in model.named_modules())])}
    return dict(sorted(plan.items(), key=lambda entry: order.get(entry[0], len(order))))


def _pieces(model: nn.Module, whole: list[str]) -> Iterable[tuple[str, nn.Module]]:
    waiting = [("", model)]
    while waiting:
        name, module = waiting.pop()
        if not _splits(module, whole) or not list(module.named_children()):
            yield name, module
        waiting += (
            [] if not _splits(module, whole) else [(f"{name}.{key}", child) for key, child in module.named_children()]
        )


def _splits(module: nn.Module, whole: list[str]) -> bool:
    return type(module).__name__ not in whole and any(True for _ in module.children())


def _parts(module: nn.Module) -> list[tuple[str, nn.Module | torch.Tensor]]:
    own = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
    return [*own, *module.named_children()]


def _tensors(item: nn.Module | torch.Tensor) -> list[torch.Tensor]:
    return [item] if isinstance(item, torch.Tensor) else [*item.parameters(), *item.buffers()]


def _bytes(item: nn.Module | torch.Tensor, dtype: torch.dtype | None, counted: set[int]) -> int:
    sizes = {
        id(t): t.numel() * (dtype.itemsize if dtype and t.is_floating_point() else t.element_size())
        for t in _tensors(item)
    }
    return sum(size for key, size in sizes.items() if key not in counted)
