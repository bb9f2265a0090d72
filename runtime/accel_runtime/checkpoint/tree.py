"""Nested states as JSON and tensors: what is read back needs no unpickling.

Dictionaries with any plain keys, lists, tuples, sets, numbers, strings, bytes, None, tensors, NumPy arrays and scalars, torch's
types, devices and sizes. A tensor that occurs twice is stored once. Special values are dictionaries with the key "!".
"""

from __future__ import annotations

import base64
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import torch

from .memory import bytes_of, view_of
from .tensor_files import METADATA, storable

_PLAIN = {type(None), bool, int, float, str}


class NotPlain(TypeError):
    """A value that has no plain form."""


class Encoder:
    """Collects the tensors of the values that it encodes.

    Attributes:
        tensors: name -> tensor. Names are the paths in the value, joined by dots.
    """

    def __init__(self) -> None:
        self.tensors: dict[str, torch.Tensor] = {}
        self._known: dict[Any, str] = {}
        self._alive: list[torch.Tensor] = []  # an address names a tensor for as long as it lives

    def encode(self, value: Any, path: str = "") -> Any:
        """What `json` can write of `value`.

        Raises:
            NotPlain: some part of it is of another type.
        """
        kind = type(value)
        if kind in _PLAIN:
            return value
        if isinstance(value, torch.Tensor):
            return self._tensor(value, path)
        if kind is dict or kind is OrderedDict:
            return self._dict(value, path)
        if kind is list:
            return self._items(value, path)
        if kind in (tuple, set, frozenset, torch.Size):
            return {"!": "size" if kind is torch.Size else kind.__name__, "v": self._items(value, path)}
        return self._special(value, path)

    def _items(self, value: Iterable[Any], path: str) -> list[Any]:
        if set(map(type, value)) <= _PLAIN:  # long lists of numbers, as random streams have them
            return list(value)
        return [self.encode(item, _join(path, i)) for i, item in enumerate(value)]

    def _dict(self, value: dict[Any, Any], path: str) -> Any:
        if type(value) is dict and all(type(key) is str for key in value) and "!" not in value:
            return {key: self.encode(item, _join(path, key)) for key, item in value.items()}
        pairs = [[self.encode(key), self.encode(item, _join(path, key))] for key, item in value.items()]
        return {"!": type(value).__name__, "v": pairs}

    def _tensor(self, value: torch.Tensor, path: str) -> dict[str, Any]:
        if value.layout is not torch.strided or value.is_quantized:
            raise NotPlain(f"{path or 'the value'} is a tensor of layout {value.layout}")
        if path == METADATA:
            raise NotPlain(f"a tensor has the name {path}, which the format keeps for itself")
        mark = _mark(value)
        name = self._known.get(mark) if mark else None
        if name is None:
            name = path or "value"
            if mark:
                self._known[mark] = name
                self._alive.append(value)
            self.tensors[name] = value if storable(value.dtype) else bytes_of(value)
        found: dict[str, Any] = {"!": "t", "n": name}
        if not storable(value.dtype):
            found |= {"d": str(value.dtype).removeprefix("torch."), "s": list(value.shape)}
        return found

    def _special(self, value: Any, path: str) -> dict[str, Any]:
        if isinstance(value, bytes):
            return {"!": "bytes", "v": base64.b64encode(value).decode()}
        if isinstance(value, complex):
            return {"!": "complex", "v": [value.real, value.imag]}
        if isinstance(value, torch.dtype):
            return {"!": "dtype", "v": str(value).removeprefix("torch.")}
        if isinstance(value, torch.device):
            return {"!": "device", "v": str(value)}
        numpy = sys.modules.get("numpy")
        if numpy is not None and type(value) is numpy.ndarray and value.dtype.kind in "biufc":
            raw = (
                torch.frombuffer(bytearray(value.tobytes()), dtype=torch.uint8)
                if value.size
                else torch.empty(0, dtype=torch.uint8)
            )
            return {"!": "array", "d": value.dtype.str, "s": list(value.shape), "v": self._tensor(raw, path)}
        if numpy is not None and isinstance(value, numpy.generic) and value.dtype.kind in "biufc":
            return {"!": "scalar", "d": value.dtype.str, "v": base64.b64encode(value.tobytes()).decode()}
        raise NotPlain(f"{path or 'the value'} is of type {type(value).__module__}.{type(value).__qualname__}")


def _join(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)


def _mark(tensor: torch.Tensor) -> Any:
    """Equal for tensors that are the same memory seen in the same way; None where there is none."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or not tensor.numel() or tensor.device.type == "meta":
        return None
    # not data_ptr: torch_xla's tensors have no address
    return tensor.untyped_storage()._cdata, tensor.storage_offset(), tensor.dtype, tuple(tensor.shape), tensor.stride()


def decode(value: Any, tensor: Callable[[str], Any]) -> Any:
    """The value that was encoded; `tensor` gives the tensors by their names.

    Raises:
        ValueError: this is nothing that `Encoder` has made.
    """
    if isinstance(value, list):
        return list(value) if set(map(type, value)) <= _PLAIN else [decode(item, tensor) for item in value]
    if not isinstance(value, dict):
        return value
    if "!" not in value:
        return {key: decode(item, tensor) for key, item in value.items()}
    kind = value["!"]
    if kind == "t":
        found = tensor(value["n"])
        return found if "d" not in value else found.clone().view(_dtype(value["d"])).view(value["s"])
    if kind in ("dict", "OrderedDict"):
        pairs = ((decode(key, tensor), decode(item, tensor)) for key, item in value["v"])
        return dict(pairs) if kind == "dict" else OrderedDict(pairs)
    if kind in _MAKE:
        return _MAKE[kind](decode(value["v"], tensor))
    if kind in ("array", "scalar"):
        return _numpy(value, tensor)
    raise ValueError(f"unknown kind of value {kind!r}")


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"unknown type {name!r}")
    return found


def _numpy(value: dict[str, Any], tensor: Callable[[str], Any]) -> Any:
    import numpy

    dtype = numpy.dtype(value["d"])
    if dtype.hasobject:
        raise ValueError("an array of objects")
    if value["!"] == "scalar":
        return numpy.frombuffer(base64.b64decode(value["v"]), dtype)[0]
    return numpy.frombuffer(bytes(view_of(decode(value["v"], tensor))), dtype).reshape(value["s"]).copy()


_MAKE: dict[str, Callable[[Any], Any]] = {
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "size": torch.Size,
    "bytes": base64.b64decode,
    "complex": lambda v: complex(*v),
    "dtype": _dtype,
    "device": torch.device,
}
