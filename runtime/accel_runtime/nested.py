"""Batches as they come: tensors nested in mappings, sequences, named tuples and dataclasses, with other things between.

Every function keeps the containers' classes (a `BatchEncoding` stays one) and passes what is no tensor through.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch


def map_tensors(fn: Callable[[torch.Tensor], Any], data: Any) -> Any:
    """Return `data` with each tensor replaced by `fn(tensor)`; a container without tensors is returned itself."""
    if isinstance(data, torch.Tensor):
        return fn(data)
    return rebuild(data, lambda part: map_tensors(fn, part))


def leaves(data: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors of `data` in the order in which `map_tensors` meets them."""
    if isinstance(data, torch.Tensor):
        yield data
    else:
        for part in children(data):
            yield from leaves(part)


def others(data: Any) -> Iterator[Any]:
    """Yield what is neither a tensor nor a container, in order."""
    if isinstance(data, torch.Tensor):
        return
    if not is_container(data):
        yield data
    for part in children(data):
        yield from others(part)


def skeleton(data: Any) -> str:
    """The nesting, the keys and the places of the tensors as text: equal for data that can be gathered together."""
    if isinstance(data, torch.Tensor):
        return "tensor"
    if isinstance(data, Mapping):
        return "{" + ", ".join(f"{key!r}: {skeleton(value)}" for key, value in data.items()) + "}"
    if is_container(data):
        return "[" + ", ".join(map(skeleton, children(data))) + "]"
    return type(data).__name__


def is_container(data: Any) -> bool:
    """Whether the functions of this module look inside `data`."""
    return isinstance(data, (Mapping, list, tuple)) or _is_dataclass(data)


def find_batch_size(data: Any) -> int | None:
    """Length of dimension 0 of the first tensor of at least one dimension; else of the first list of plain values; else None."""
    for tensor in leaves(data):
        if tensor.ndim:
            return tensor.shape[0]
    return _first_list_length(data)


def slice_rows(data: Any, start: int, stop: int, rows: int | None = None) -> Any:
    """Return samples `start` to `stop` of a batch.

    Cut are the tensors and arrays whose dimension 0 is the batch size, and the lists that hold one entry per sample
    (strings, dictionaries, tensors of different shapes). Everything else belongs to the batch as a whole and is kept.

    Args:
        data: a batch.
        start: first sample.
        stop: one behind the last sample.
        rows: the batch size, if it is known; `find_batch_size(data)` otherwise.
    """
    rows = find_batch_size(data) if rows is None else rows
    return data if rows is None else _slice(data, start, stop, rows)


def send_to_device(
    data: Any, device: torch.device | str, non_blocking: bool = False, skip_keys: str | list[str] | None = None
) -> Any:
    """Return `data` with all tensors, and all objects that have a `to` method, on `device`.

    `skip_keys` names entries of mappings that stay where they are.
    """
    skipped = {skip_keys} if isinstance(skip_keys, str) else set(skip_keys or ())
    if isinstance(data, torch.Tensor):
        return data.to(device, non_blocking=non_blocking)
    if isinstance(data, Mapping) and skipped:
        moved = {k: v if k in skipped else send_to_device(v, device, non_blocking, skip_keys) for k, v in data.items()}
        return _rebuild_mapping(data, moved)
    if hasattr(data, "to") and not isinstance(data, type):
        return _move_object(data, device, non_blocking)
    return rebuild(data, lambda part: send_to_device(part, device, non_blocking, skip_keys))


def concatenate(batches: list[Any], dim: int = 0) -> Any:
    """Join batches of the same structure along `dim`: tensors are concatenated, lists with one entry per sample are joined.

    What is neither is taken from the first batch.

    Raises:
        ValueError: the batches differ in structure.
    """
    return _join(batches, [find_batch_size(batch) for batch in batches], dim)


def _join(parts: list[Any], rows: list[int | None], dim: int) -> Any:
    """Join the same part of all batches; `rows` holds the size of each batch."""
    first = parts[0]
    if isinstance(first, torch.Tensor):
        return torch.cat([part if part.ndim else part[None] for part in parts], dim=dim)
    if isinstance(first, (list, tuple)) and _list_samples(parts, rows):
        return _rebuild_sequence(first, [sample for part in parts for sample in part])
    if not is_container(first):
        return first
    columns = [list(children(part)) for part in parts]
    if len({len(column) for column in columns}) > 1:
        counts = [len(column) for column in columns]
        raise ValueError(f"cannot join batches of different structure: they have {counts} entries in a {type(first).__name__}")
    joined = iter([_join(list(row), rows, dim) for row in zip(*columns, strict=True)])
    return rebuild(first, lambda part: next(joined), always=True)


def children(data: Any) -> Iterator[Any]:
    """Yield the direct parts of a container; nothing for anything else."""
    if isinstance(data, Mapping):
        yield from data.values()
    elif isinstance(data, (list, tuple)):
        yield from data
    elif _is_dataclass(data):
        yield from (getattr(data, field.name) for field in dataclasses.fields(data))


def rebuild(data: Any, fn: Callable[[Any], Any], always: bool = False) -> Any:
    """`data` with `fn` applied to each direct part; the very object if nothing changed, unless `always`."""
    if not is_container(data):
        return data
    old = list(children(data))
    new = [fn(part) for part in old]
    if not always and all(a is b for a, b in zip(old, new, strict=True)):
        return data
    if isinstance(data, Mapping):
        return _rebuild_mapping(data, dict(zip(data.keys(), new, strict=True)))
    if isinstance(data, (list, tuple)):
        return _rebuild_sequence(data, new)
    clone = copy.copy(data)
    for field, value in zip(dataclasses.fields(data), new, strict=True):
        object.__setattr__(clone, field.name, value)  # frozen ones too
    return clone


def _rebuild_mapping(data: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    if type(data) is dict:
        return items
    if not hasattr(data, "__setitem__"):
        return type(data)(items)  # type: ignore[call-arg]
    clone = copy.copy(data)  # keeps what else it carries: a default factory, encodings
    for key, value in items.items():
        clone[key] = value  # type: ignore[index]
    return clone


def _rebuild_sequence(data: Any, items: list[Any]) -> Any:
    if hasattr(data, "_fields"):  # a named tuple
        return type(data)(*items)
    return type(data)(items)


def _slice(data: Any, start: int, stop: int, rows: int) -> Any:
    if _has_rows(data, rows):
        return data[start:stop]
    if isinstance(data, (list, tuple)) and _one_entry_per_sample(data, rows):
        return _rebuild_sequence(data, list(data[start:stop]))
    return rebuild(data, lambda part: _slice(part, start, stop, rows))


def _has_rows(data: Any, rows: int) -> bool:
    """Whether `data` is a tensor or an array whose dimension 0 is the batch."""
    shape = getattr(data, "shape", None)
    return isinstance(shape, tuple) and len(shape) > 0 and shape[0] == rows and hasattr(data, "__getitem__")


def _one_entry_per_sample(data: Any, rows: int) -> bool:
    """Whether a sequence as long as the batch holds one entry per sample, rather than one batched tensor per field.

    Of a list, all tensors have to be batched to count as fields: those of a single sample may be as long by chance.
    """
    if len(data) != rows or hasattr(data, "_fields"):
        return False
    inner = [part for element in data for part in (children(element) if is_container(element) else [element])]
    batched = [_has_rows(part, rows) for part in inner if isinstance(part, torch.Tensor) and part.ndim]
    return not (all(batched) if isinstance(data, list) and batched else any(batched))


def _list_samples(parts: list[Any], rows: list[int | None]) -> bool:
    """Whether these sequences hold one entry per sample, rather than one tensor or container per field."""
    if all(n is not None and _one_entry_per_sample(part, n) for part, n in zip(parts, rows, strict=True)):
        return True
    named = any(hasattr(part, "_fields") for part in parts)
    return not named and not any(isinstance(e, torch.Tensor) or is_container(e) for part in parts for e in part)


def _first_list_length(data: Any) -> int | None:
    if isinstance(data, (list, tuple)) and data and not any(is_container(part) for part in data):
        return len(data)
    return next((n for part in children(data) if (n := _first_list_length(part)) is not None), None)


def _move_object(data: Any, device: torch.device | str, non_blocking: bool) -> Any:
    try:
        return data.to(device, non_blocking=non_blocking)
    except TypeError:  # its own signature
        return data.to(device)


def _is_dataclass(data: Any) -> bool:
    return dataclasses.is_dataclass(data) and not isinstance(data, type)
