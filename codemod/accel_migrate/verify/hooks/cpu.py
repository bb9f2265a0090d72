"""Run on the CPU what asks for a GPU: `.cuda()`, "cuda:0", nccl and kin mean the CPU and gloo.

Functions are replaced one by one: a torch function mode would do it in one place, and slow every operation down.
"""

from __future__ import annotations

import functools
from typing import Any

_FACTORIES = ["tensor", "as_tensor", "zeros", "ones", "empty", "full", "rand", "randn", "randint", "randperm", "arange", "linspace", "eye", "zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "randint_like"]
_METHODS = ["to", "new_zeros", "new_ones", "new_empty", "new_full", "new_tensor"]
_QUIET = ["set_device", "manual_seed", "manual_seed_all", "empty_cache", "synchronize", "init", "ipc_collect", "reset_peak_memory_stats", "reset_max_memory_allocated"]
_ZERO = ["memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "current_device"]


def map_to_cpu() -> None:
    """Patch torch in this process, which must see no device."""
    import torch

    for name in _FACTORIES:
        setattr(torch, name, _without_devices(getattr(torch, name)))
    for name in _METHODS:
        setattr(torch.Tensor, name, _method(getattr(torch.Tensor, name)))
    torch.nn.Module.to = _method(torch.nn.Module.to)  # type: ignore[method-assign]
    for kind in (torch.Tensor, torch.nn.Module):
        kind.cuda = lambda self, *args, **kwargs: self  # type: ignore[method-assign]
    torch.Tensor.pin_memory = lambda self, *args, **kwargs: self  # type: ignore[method-assign]
    torch.load = _load_on_cpu(torch.load)
    _quiet_cuda(torch.cuda)
    _gloo()


def on_cpu(value: Any) -> Any:
    """A device of another kind as the CPU; anything else as it is."""
    import torch

    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type in ("cuda", "mps", "xpu") else value
    return "cpu" if isinstance(value, str) and value.partition(":")[0] in ("cuda", "mps", "xpu") else value


def _without_devices(plain: Any) -> Any:
    @functools.wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is not None:
            kwargs["device"] = "cpu" if isinstance(device, int) else on_cpu(device)
        return plain(*args, **kwargs)

    return call


def _method(plain: Any) -> Any:
    @functools.wraps(plain)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("device") is not None:
            kwargs["device"] = on_cpu(kwargs["device"])
        if args and plain.__name__ == "to":
            first = "cpu" if type(args[0]) is int else on_cpu(args[0])
            args = (first, *args[1:])
        return plain(self, *args, **kwargs)

    return call


def _load_on_cpu(plain: Any) -> Any:
    @functools.wraps(plain)
    def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        return plain(f, "cpu" if map_location is None or not callable(map_location) else map_location, *args, **kwargs)

    return load


def _quiet_cuda(cuda: Any) -> None:
    for name in _QUIET:
        setattr(cuda, name, lambda *args, **kwargs: None)
    for name in _ZERO:
        setattr(cuda, name, lambda *args, **kwargs: 0)
    cuda.get_device_name = lambda *args, **kwargs: "CPU in place of a GPU"


def _gloo() -> None:
    """Process groups and DDP as they are made on the CPU."""
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    start = dist.init_process_group

    @functools.wraps(start)
    def init_process_group(backend: Any = None, *args: Any, **kwargs: Any) -> None:
        kwargs.pop("device_id", None)
        start("gloo" if isinstance(backend, str) and "nccl" in backend else backend, *args, **kwargs)

    dist.init_process_group = init_process_group
    plain = DistributedDataParallel.__init__

    @functools.wraps(plain)
    def init(self: Any, module: Any, device_ids: Any = None, output_device: Any = None, *args: Any, **kwargs: Any) -> None:
        plain(self, module, None, None, *args, **kwargs)

    DistributedDataParallel.__init__ = init  # type: ignore[method-assign]
