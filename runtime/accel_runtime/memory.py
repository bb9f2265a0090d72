"""Out of memory: try smaller batches; let go of what is not needed."""

from __future__ import annotations

import functools
import gc
import inspect
from collections.abc import Callable
from typing import Any

import torch

_OUT_OF_MEMORY = (
    "out of memory",
    "CUDNN_STATUS_NOT_SUPPORTED",
    "DefaultCPUAllocator: can't allocate memory",
    "DefaultCPUAllocator: not enough memory",
)


def find_executable_batch_size(
    function: Callable[..., Any] | None = None,
    starting_batch_size: int = 128,
    reduce_batch_size_fn: Callable[[], int] | None = None,
) -> Callable[..., Any]:
    """Decorator: call `function(batch_size, ...)` with ever smaller batch sizes until it fits into memory.

    Args:
        function: takes the batch size as its first argument.
        starting_batch_size: the first to try.
        reduce_batch_size_fn: gives the next one to try; default: nine tenths of the last.

    Raises:
        RuntimeError: not even a batch size of 1 fits.
        TypeError: the call passes a batch size itself.
    """
    if function is None:
        return functools.partial(
            find_executable_batch_size,
            starting_batch_size=starting_batch_size,
            reduce_batch_size_fn=reduce_batch_size_fn,
        )
    size = starting_batch_size

    @functools.wraps(function)
    def attempt(*args: Any, **kwargs: Any) -> Any:
        nonlocal size
        _check_arguments(function, args)
        clear_device_cache(garbage_collection=True)
        while size > 0:
            try:
                return function(size, *args, **kwargs)
            except Exception as error:
                if not should_reduce_batch_size(error):
                    raise
            # Outside of `except`: the traceback would keep the failed attempt's tensors alive.
            clear_device_cache(garbage_collection=True)
            size = reduce_batch_size_fn() if reduce_batch_size_fn else int(size * 0.9)
        raise RuntimeError("No executable batch size found, reached zero.")

    return attempt


def should_reduce_batch_size(exception: Exception) -> bool:
    """Whether `exception` says that memory ran out (on any device), or that cuDNN cannot handle the size."""
    if isinstance(exception, torch.OutOfMemoryError):
        return True
    return isinstance(exception, RuntimeError) and any(text in str(exception) for text in _OUT_OF_MEMORY)


def release_memory(*objects: Any) -> list[None]:
    """Return one None for each of `objects`, to be assigned to their names, and empty the device's cache.

    >>> model, optimizer = release_memory(model, optimizer)
    """
    count = len(objects)
    del objects
    clear_device_cache(garbage_collection=True)
    return [None] * count


def clear_device_cache(garbage_collection: bool = False) -> None:
    """Give cached device memory back; with `garbage_collection` collect unreachable objects before."""
    if garbage_collection:
        gc.collect()
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is not None:
        module = getattr(torch, accelerator.type, None)
        if hasattr(module, "empty_cache"):
            module.empty_cache()


def _check_arguments(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    names = list(inspect.signature(function).parameters)
    if len(args) + 1 > len(names):
        name = getattr(function, "__name__", "function")
        call = ", ".join(f"{n}={a!r}" for n, a in zip(names[1:], args[1:], strict=False))
        raise TypeError(
            f"Batch size was passed into `{name}` as the first argument when called. "
            f"Remove this as the decorator already does so: `{name}({call})`"
        )
