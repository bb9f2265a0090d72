"""TPUs, through torch_xla: one process drives all devices of its machine.

The program is that of one process which has the whole batch. XLA's partitioner cuts the rows of each batch among the devices
and puts in the communication (SPMD, https://docs.pytorch.org/xla/master/perf/spmd_basic.html), so that losses, the statistics
of BatchNorm and metrics are those of the whole batch, whatever the number of devices.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

import torch

from .nested import map_tensors

_INSTALL = "install torch_xla, in the version of your torch"


def asked_for() -> bool:
    """Whether the environment asks for torch_xla's devices, as its own variable does."""
    return "PJRT_DEVICE" in os.environ


def open_device(source: str) -> torch.device:
    """The device that stands for all devices of this machine; tensors on it are whole.

    Args:
        source: what asked for it, for messages.

    Raises:
        ValueError: torch_xla is not there or finds no TPU, or several processes were started.
    """
    explicit = asked_for()
    try:
        import torch_xla
        import torch_xla.runtime as runtime
    except ImportError as error:
        raise ValueError(f"{source} asks for a TPU, and torch_xla cannot be imported ({error}): {_INSTALL}") from None
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        raise ValueError(f"{os.environ['WORLD_SIZE']} processes were started for a TPU: one process drives all devices of a machine, start the script with `python` or `accel launch --tpu`")
    if not explicit and runtime.device_type() != "TPU":
        raise ValueError(f"{source} asks for a TPU, and this machine has none; PJRT_DEVICE=CPU in the environment tries the program on the CPU")
    runtime.use_spmd()
    device = torch_xla.device()
    torch.zeros(1, device=device).cpu()  # autograd counts the devices at its first backward: they must be there by then
    return device


@functools.cache
def mesh() -> Any:
    """All devices in one row, `data`."""
    import numpy
    import torch_xla.distributed.spmd as spmd
    import torch_xla.runtime as runtime

    devices = runtime.global_runtime_device_count()
    return spmd.Mesh(numpy.arange(devices), (devices,), ("data",))


def cut(tensor: torch.Tensor) -> torch.Tensor:
    """`tensor`, of which every device keeps as many rows; whole on each where they do not divide, or where it has been cut before."""
    import torch_xla
    import torch_xla.distributed.spmd as spmd

    devices = mesh().size()
    if devices > 1 and tensor.device.type == "xla" and tensor.ndim and len(tensor) and len(tensor) % devices == 0 and not torch_xla._XLAC._get_xla_sharding_spec(tensor):
        spmd.mark_sharding(tensor, mesh(), ("data", *(None,) * (tensor.ndim - 1)))
    return tensor


def cut_batch(batch: Any) -> Any:
    """Cut all tensors of a batch that has arrived on the device; what was recorded before is computed."""
    finish()
    return map_tensors(cut, batch)


def finish() -> None:
    """Compute what has been recorded so far."""
    import torch_xla

    torch_xla.sync()


def on_host(data: Any) -> Any:
    """`data` with its tensors on the CPU, where any machine can load them."""
    return map_tensors(lambda tensor: tensor.cpu() if tensor.device.type == "xla" else tensor, data)


def seed(value: int) -> None:
    """Seed the device's stream, if torch_xla is in use: torch's own seed does not reach it."""
    if "torch_xla" in sys.modules:
        import torch_xla

        torch_xla.manual_seed(value)


class Stream:
    """The device's random stream, with the names of torch's device modules."""

    @staticmethod
    def get_rng_state() -> torch.Tensor:
        import torch_xla.core.xla_model as xla_model

        return torch.frombuffer(bytearray(int(xla_model.get_rng_state()).to_bytes(8, "little")), dtype=torch.uint8)

    @staticmethod
    def set_rng_state(state: torch.Tensor) -> None:
        import torch_xla.core.xla_model as xla_model

        xla_model.set_rng_state(int.from_bytes(bytes(state.tolist()), "little"))
