"""Start a function on several processes from inside a program: a notebook, a test."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from torch.distributed import TCPStore

from . import state
from . import world as worlds
from .utils.environment import patch_environment


def notebook_launcher(
    function: Callable[..., Any],
    args: tuple[Any, ...] = (),
    num_processes: int | None = None,
    mixed_precision: str = "no",
    use_port: str | int | None = None,
    master_addr: str = "127.0.0.1",
    node_rank: int = 0,
    num_nodes: int = 1,
) -> None:
    """Run `function(*args)` on `num_processes` processes of this machine (default: one per device, one without).

    Args:
        function: makes its own `Accelerator`; may be defined in a notebook's cell.
        args: its arguments.
        num_processes: how many; with several machines, on each.
        mixed_precision: the default of `Accelerator(mixed_precision=)`.
        use_port: where processes meet; default: any free port, with several machines 29500.
        master_addr: the address of machine 0.
        node_rank: number of this machine.
        num_nodes: number of machines.

    Raises:
        RuntimeError: this process has made an `Accelerator` or used a GPU, which processes forked from it cannot share.
    """
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    count = num_processes or (torch.accelerator.device_count() if accelerator is not None else 1)
    environment = {"ACCELERATE_MIXED_PRECISION": mixed_precision}
    if count * num_nodes == 1:
        with patch_environment(**environment):
            function(*args)
        return
    if worlds.current() is not None or torch.cuda.is_initialized():
        raise RuntimeError(
            "notebook_launcher must come before anything that makes an Accelerator or uses a GPU in this process: "
            "restart the notebook, and make the Accelerator inside the function"
        )
    address = (master_addr, int(use_port or 29500), node_rank, num_nodes) if num_nodes > 1 or use_port else None
    _run(function, args, count, environment, address)


def debug_launcher(function: Callable[..., Any], args: tuple[Any, ...] = (), num_processes: int = 2) -> None:
    """Run `function(*args)` on `num_processes` connected CPU processes, whatever devices there are.

    Raises:
        torch.multiprocessing.ProcessRaisedException: with the traceback of the process that failed first.
    """
    _run(function, args, num_processes, {"ACCELERATE_USE_CPU": "yes"}, None)


def _run(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    count: int,
    environment: dict[str, str],
    address: tuple[str, int, int, int] | None,
) -> None:
    from torch.multiprocessing import start_processes

    store = None
    if address is None:  # this process holds the meeting point, so that no port needs to be guessed
        store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        address = ("127.0.0.1", store.port, 0, 1)
        environment = {**environment, "TORCHELASTIC_USE_AGENT_STORE": "True"}
    host, port, node, nodes = address
    environment |= {
        "MASTER_ADDR": host,
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(count * nodes),
        "LOCAL_WORLD_SIZE": str(count),
        "FORK_LAUNCHED": "1",
    }
    start_processes(_child, (function, args, environment, node * count), nprocs=count, start_method="fork")  # type: ignore[no-untyped-call]
    del store


def _child(local_rank: int, function: Callable[..., Any], args: tuple[Any, ...], environment: dict[str, str], first: int) -> None:
    os.environ.update(environment, LOCAL_RANK=str(local_rank), RANK=str(first + local_rank))
    state.forget()
    torch.set_num_threads(1)  # the thread pool of the parent does not survive a fork
    function(*args)
    worlds.leave()
