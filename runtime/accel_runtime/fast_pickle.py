"""Pickle batches: plain CPU tensors go in as their bytes, which is several times faster than torch's own pickling."""

from __future__ import annotations

import io
import pickle
from typing import Any

import torch


def dumps(value: Any) -> bytearray:
    """`value` as bytes, writable, since torch wants to own the memory it reads from."""
    target = io.BytesIO()
    _Pickler(target, protocol=5).dump(value)
    return bytearray(target.getbuffer())


def loads(message: torch.Tensor) -> Any:
    """The value whose bytes are in the one-dimensional CPU tensor `message`."""
    return pickle.loads(message.numpy().data)


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if type(value) is not torch.Tensor or not _is_plain(value):
            return NotImplemented
        raw = value.detach().contiguous().reshape(-1).view(torch.uint8)
        return _restore, (pickle.PickleBuffer(raw.numpy()), value.dtype, tuple(value.shape))


def _is_plain(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cpu" and tensor.layout is torch.strided and not tensor.requires_grad and tensor.numel() > 0 and not tensor.is_conj() and not tensor.is_neg()


def _restore(buffer: Any, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    memory = buffer if type(buffer) is bytearray else bytearray(buffer)
    return torch.frombuffer(memory, dtype=torch.uint8).view(dtype).view(shape)
