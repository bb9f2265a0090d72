"""From which delivered batch a value was computed: its autograd graph tells, or the model call in which it is asked.

A batch is recognised by the memory of its tensors, so that views of them count and copies do not.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn

from .nested import leaves
from .passes import Delivered


def origins(value: torch.Tensor | None, batches: list[Delivered]) -> list[Delivered]:
    """Those of `batches` that `value` was computed from, as far as its graph keeps them."""
    return [] if value is None else owners(tensors_behind(value), batches)


def called_with(batches: list[Delivered]) -> list[Delivered]:
    """Those of `batches` that were handed to the innermost model, or method of one, which is running."""
    frame = sys._getframe(1)
    while frame is not None:
        names = frame.f_code.co_varnames[: _arguments(frame.f_code)]
        if names and isinstance(frame.f_locals.get(names[0]), nn.Module):
            handed = [leaf for name in names[1:] for leaf in leaves(frame.f_locals.get(name))]
            found = owners((tensor for leaf in handed for tensor in tensors_behind(leaf)), batches)
            if found:
                return found
        frame = frame.f_back
    return []


def hints_at(value: torch.Tensor, batch: Delivered, known: list[Delivered]) -> bool:
    """Whether `value` seems to be computed from a transformed copy of `batch` too.

    Then data with its number of rows went into it, and the batches `known` to have gone into it have other numbers.
    """
    rows = batch.share.local
    if rows == 1 or any(other.share.local == rows for other in known):
        return False
    explained = {storage for other in [*known, batch] for storage in other.storages}
    return any(
        tensor.ndim > 1 and tensor.shape[0] == rows and _is_data(tensor) and tensor.untyped_storage()._cdata not in explained
        for tensor in tensors_behind(value)
        if _has_storage(tensor)
    )


def _is_data(tensor: torch.Tensor) -> bool:
    """Whether a tensor that was saved is neither a result nor a parameter."""
    source = tensor if tensor._base is None else tensor._base
    return not (tensor.requires_grad or source.requires_grad or isinstance(source, nn.Parameter))


def owners(tensors: Iterable[torch.Tensor], batches: list[Delivered]) -> list[Delivered]:
    seen = {tensor.untyped_storage()._cdata for tensor in tensors if _has_storage(tensor)}
    return [batch for batch in batches if not seen.isdisjoint(batch.storages)]


def _has_storage(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and tensor.numel() > 0


def _arguments(code: Any) -> int:
    varargs, keywords = bool(code.co_flags & 0x04), bool(code.co_flags & 0x08)
    return code.co_argcount + code.co_kwonlyargcount + varargs + keywords


def tensors_behind(value: torch.Tensor, border: type | None = None) -> Iterator[Any]:
    """`value` and every tensor which its autograd graph saved for the backward; None in place of a node of the type `border` and what is behind it."""
    yield value
    pending, visited = [value.grad_fn], set()
    while pending:
        node = pending.pop()
        if node is None or node in visited:
            continue
        visited.add(node)
        if border is not None and isinstance(node, border):
            yield None
            continue
        pending.extend(following for following, _ in node.next_functions)
        yield from _saved_tensors(node)


def _saved_tensors(node: Any) -> Iterator[torch.Tensor]:
    for name in _saved_names(type(node)):
        try:
            saved = getattr(node, name)
        except RuntimeError:  # freed by an earlier backward
            continue
        for tensor in saved if isinstance(saved, (tuple, list)) else (saved,):
            if isinstance(tensor, torch.Tensor):
                yield tensor


@functools.cache
def _saved_names(node_type: type) -> list[str]:
    names = (name for name in dir(node_type) if "_sym_" not in name)
    return [name for name in names if name.startswith("_saved_") or name in ("saved_tensors", "variable")]
