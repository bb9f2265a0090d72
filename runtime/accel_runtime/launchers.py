"""Start a function on several processes from inside a program: a notebook, a test."""

from __future__ import annotations

import io
import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

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
    rdzv_backend: str = "static",
    rdzv_endpoint: str = "",
    rdzv_conf: dict[str, Any] | None = None,
    rdzv_id: str = "none",
    max_restarts: int = 0,
    monitor_interval: float = 0.1,
    log_line_prefix_template: str | None = None,
) -> Any:
    """Run `function(*args)` on `num_processes` processes of this machine (default: one per device, one without).

    Returns what the function returned on the first of them; from several processes it comes back by pickle, with its
    tensors on the CPU. Accelerate's function of this name returns None.

    Args:
        function: makes its own `Accelerator`; may be defined in a notebook's cell.
        args: its arguments.
        num_processes: how many; with several machines, on each.
        mixed_precision: the default of `Accelerator(mixed_precision=)`.
        use_port: where processes meet; default: any free port, with several machines 29500.
        master_addr: the address of machine 0.
        node_rank: number of this machine.
        num_nodes: number of machines.
        rdzv_backend: how several machines meet: "static"; on one machine it does not matter.
        rdzv_endpoint: `ADDRESS:PORT` of machine 0, instead of `master_addr` and `use_port`.
        rdzv_conf: `{"rank": N}`, instead of `node_rank`.
        rdzv_id: not needed: a notebook's processes meet nobody else's.
        max_restarts: how often all processes are started again after one of them has failed; on one machine.
        monitor_interval: not needed: a failure is noticed at once.
        log_line_prefix_template: None: lines are printed as they are.

    Raises:
        ValueError: what these arguments ask for is not there.
        RuntimeError: this process has made an `Accelerator` or used a GPU, which processes forked from it cannot share.
    """
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    count = num_processes or (torch.accelerator.device_count() if accelerator is not None else 1)
    environment = {"ACCELERATE_MIXED_PRECISION": mixed_precision}
    node_rank = int((rdzv_conf or {}).get("rank", node_rank))
    _check_rendezvous(num_nodes, rdzv_backend, rdzv_conf or {}, max_restarts, log_line_prefix_template)
    if rdzv_endpoint:
        master_addr, _, use_port = rdzv_endpoint.rpartition(":")
    if count * num_nodes == 1 and not max_restarts:
        with patch_environment(**environment):
            return function(*args)
    if worlds.current() is not None or torch.cuda.is_initialized():
        raise RuntimeError(
            "notebook_launcher must come before anything that makes an Accelerator or uses a GPU in this process: "
            "restart the notebook, and make the Accelerator inside the function"
        )
    address = (master_addr, int(use_port or 29500), node_rank, num_nodes) if num_nodes > 1 or use_port else None
    return _persistently(max_restarts, lambda: _run(function, args, count, environment, address))


def _check_rendezvous(nodes: int, backend: str, conf: dict[str, Any], restarts: int, prefix: str | None) -> None:
    """Raise a ValueError for what `accel launch` has and a notebook has not."""
    instead = "start a script with `accel launch` for it"
    if nodes > 1 and backend != "static":
        raise ValueError(f"notebook_launcher: rdzv_backend is {backend!r}, and several machines meet by 'static' alone: {instead}")
    if nodes > 1 and restarts:
        raise ValueError(f"notebook_launcher: max_restarts is {restarts}, and processes are started again on one machine alone: {instead}")
    if unknown := sorted(conf.keys() - {"rank"}):
        raise ValueError(f"notebook_launcher: rdzv_conf has {', '.join(unknown)}; it may have 'rank' alone: {instead}")
    if prefix is not None:
        raise ValueError(f"notebook_launcher: log_line_prefix_template must be None, lines have no prefix: {instead} (--log_dir)")


def _persistently(restarts: int, attempt: Callable[[], Any]) -> Any:
    """What `attempt` returns; after a process has failed, it is made again, `restarts` times."""
    from torch.multiprocessing.spawn import ProcessException

    for _ in range(restarts):
        try:
            return attempt()
        except ProcessException:
            continue
    return attempt()


def debug_launcher(function: Callable[..., Any], args: tuple[Any, ...] = (), num_processes: int = 2) -> Any:
    """Run `function(*args)` on `num_processes` connected CPU processes, whatever devices there are.

    Returns what the function returned on the first of them, as `notebook_launcher` does.

    Raises:
        torch.multiprocessing.ProcessRaisedException: with the traceback of the process that failed first.
    """
    return _run(function, args, num_processes, {"ACCELERATE_USE_CPU": "yes"}, None)


def _run(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    count: int,
    environment: dict[str, str],
    address: tuple[str, int, int, int] | None,
) -> Any:
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
    with tempfile.TemporaryFile() as result:  # the first process inherits it, whatever it returns
        arguments = function, args, environment, node * count, result
        started = start_processes(_child, arguments, nprocs=count, join=False, start_method="fork")  # type: ignore[no-untyped-call]
        try:
            while not started.join():
                pass
        finally:
            for left in getattr(started, "error_files", ()):
                Path(left).unlink(missing_ok=True)
        del store
        return _received(result)


def _child(
    local_rank: int, function: Callable[..., Any], args: tuple[Any, ...], environment: dict[str, str], first: int, result: IO[bytes]
) -> None:
    os.environ.update(environment, LOCAL_RANK=str(local_rank), RANK=str(first + local_rank))
    state.forget()
    torch.set_num_threads(1)  # the thread pool of the parent does not survive a fork
    returned = function(*args)
    if local_rank == 0 and returned is not None:
        _send(returned, result, getattr(function, "__name__", "the function"))
    worlds.leave()


def _send(returned: Any, result: IO[bytes], name: str) -> None:
    buffer = io.BytesIO()
    try:
        torch.save(returned, buffer)
    except Exception as error:
        warnings.warn(
            f"what {name} returned stays in its process, since it cannot be pickled ({error}): return tensors, numbers or state dicts",
            stacklevel=2,
        )
        return
    result.write(buffer.getbuffer())
    result.flush()


def _received(result: IO[bytes]) -> Any:
    result.seek(0)
    data = result.read()
    return torch.load(io.BytesIO(data), map_location="cpu", weights_only=False) if data else None
