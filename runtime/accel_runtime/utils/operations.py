"""`accelerate.utils.operations`'s names: operations on nested data, in the world of this process."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch

from .. import collectives, nested
from ..collectives import DistributedOperationException
from ..nested import find_batch_size, send_to_device
from ..world import World

__all__ = [
    "CannotPadNestedTensorWarning",
    "ConvertOutputsToFp32",
    "DistributedOperationException",
    "broadcast",
    "broadcast_object_list",
    "concatenate",
    "convert_outputs_to_fp32",
    "convert_to_fp32",
    "find_batch_size",
    "find_device",
    "gather",
    "gather_object",
    "honor_type",
    "ignorant_find_batch_size",
    "is_namedtuple",
    "is_torch_tensor",
    "listify",
    "pad_across_processes",
    "pad_input_tensors",
    "recursively_apply",
    "reduce",
    "send_to_device",
    "slice_tensors",
]

_HALF = (torch.float16, torch.bfloat16)


class CannotPadNestedTensorWarning(UserWarning):
    """A tensor of `torch.nested` was given, which has no single shape to pad."""


def gather(tensor: Any) -> Any:
    """All processes' tensors, concatenated along dimension 0."""
    return collectives.gather(World.from_environment(), tensor)


def gather_object(object: Any) -> Any:
    """One list: all processes' lists, joined."""
    return collectives.gather_object(World.from_environment(), object)


def reduce(tensor: Any, reduction: str = "mean", scale: float = 1.0) -> Any:
    """Sum, mean, max or min over processes."""
    return collectives.reduce(World.from_environment(), tensor, reduction, scale)


def broadcast(tensor: Any, from_process: int = 0) -> Any:
    """Overwrite tensors with those of `from_process`."""
    return collectives.broadcast(World.from_environment(), tensor, from_process)


def broadcast_object_list(object_list: list[Any], from_process: int = 0) -> list[Any]:
    """Overwrite the entries of the list with those of `from_process`."""
    return collectives.broadcast_object_list(World.from_environment(), object_list, from_process)


def pad_across_processes(tensor: Any, dim: int = 0, pad_index: float = 0, pad_first: bool = False) -> Any:
    """Pad tensors to the longest of all processes along `dim`."""
    if any(leaf.is_nested for leaf in nested.leaves(tensor)):
        warnings.warn("nested tensors have no single shape: not padded", CannotPadNestedTensorWarning, stacklevel=2)
        return tensor
    return collectives.pad_across_processes(World.from_environment(), tensor, dim, pad_index, pad_first)


def is_torch_tensor(tensor: Any) -> bool:
    """Whether this is a tensor."""
    return isinstance(tensor, torch.Tensor)


def is_namedtuple(data: Any) -> bool:
    """Whether this is an instance of a named tuple."""
    return isinstance(data, tuple) and hasattr(data, "_fields") and hasattr(data, "_asdict")


def honor_type(obj: Any, generator: Any) -> Any:
    """A sequence of the class of `obj` with the items of `generator`."""
    return type(obj)(*generator) if is_namedtuple(obj) else type(obj)(generator)


def recursively_apply(
    func: Callable[..., Any],
    data: Any,
    *args: Any,
    test_type: Callable[[Any], bool] = is_torch_tensor,
    error_on_other_type: bool = False,
    **kwargs: Any,
) -> Any:
    """`func(item, *args, **kwargs)` on every item that passes `test_type`, inside lists, tuples and mappings.

    Raises:
        TypeError: with `error_on_other_type`, another item.
    """
    inner = functools.partial(recursively_apply, func, test_type=test_type, error_on_other_type=error_on_other_type)
    if isinstance(data, (tuple, list)):
        return honor_type(data, (inner(item, *args, **kwargs) for item in data))
    if isinstance(data, Mapping):
        return type(data)({key: inner(value, *args, **kwargs) for key, value in data.items()})  # type: ignore[call-arg]
    if test_type(data):
        return func(data, *args, **kwargs)
    if error_on_other_type:
        raise TypeError(
            f"Unsupported types ({type(data)}) passed to `{func.__name__}`. Only nested list/tuple/dicts of objects that are "
            f"valid for `{test_type.__name__}` should be passed."
        )
    return data


def slice_tensors(data: Any, tensor_slice: slice, process_index: int | None = None, num_processes: int | None = None) -> Any:
    """Every tensor's rows `tensor_slice`."""
    return nested.map_tensors(lambda tensor: tensor[tensor_slice], data)


def concatenate(data: list[Any], dim: int = 0) -> Any:
    """Join batches of one structure along `dim`.

    Raises:
        TypeError: several batches, and something else than tensors in them.
    """
    if len(data) == 1:
        return data[0]
    strange = next(nested.others(data), None)
    if strange is not None:
        raise TypeError(f"Can only concatenate tensors but got {type(strange)}")
    return nested.concatenate(data, dim)


def pad_input_tensors(tensor: Any, batch_size: int, num_processes: int, dim: int = 0) -> Any:
    """Append rows of zeros so that the batch divides among `num_processes`."""
    rows = -(-batch_size // num_processes) * num_processes
    return nested.map_tensors(lambda t: torch.cat([t, t.new_zeros(rows - batch_size, *t.shape[1:])]), tensor)


def ignorant_find_batch_size(data: Any) -> int | None:
    """`find_batch_size`, None where there is none."""
    return find_batch_size(data)


def listify(data: Any) -> Any:
    """Tensors as numbers and lists."""
    return nested.map_tensors(lambda t: (t.float() if t.dtype is torch.bfloat16 else t).detach().cpu().tolist(), data)


def find_device(data: Any) -> torch.device | None:
    """The device of the first tensor, None if there is none."""
    first = next(nested.leaves(data), None)
    return None if first is None else first.device


def convert_to_fp32(tensor: Any) -> Any:
    """float16 and bfloat16 tensors as float32."""
    return nested.map_tensors(lambda t: t.float() if t.dtype in _HALF else t, tensor)


class ConvertOutputsToFp32:
    """A forward method whose half-precision outputs become float32; pickles as the method that it stands for."""

    def __init__(self, model_forward: Callable[..., Any]):
        self.model_forward = model_forward
        functools.update_wrapper(self, model_forward)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return convert_to_fp32(self.model_forward(*args, **kwargs))


def convert_outputs_to_fp32(model_forward: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a forward method so that its half-precision outputs become float32."""
    converter = ConvertOutputsToFp32(model_forward)

    @functools.wraps(model_forward)
    def forward(*args: Any, **kwargs: Any) -> Any:
        return converter(*args, **kwargs)

    return forward
