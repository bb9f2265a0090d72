"""Run a function on N connected gloo processes, by fork: tenths of a second instead of the half minute of a launcher.

Process 0 opens the rendezvous store at any free port and writes the port down for the others, so no port is guessed, and
the parent has no thread that a fork could catch at a bad moment. The children find the store through the environment
variables which torchrun sets, hence the runtime under test starts exactly as in production.
"""

from __future__ import annotations

import faulthandler
import gc
import multiprocessing
import os
import pickle
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import IO, Any

import torch
import torch._dynamo  # the first optimizer imports it: once here instead of once in every child
from torch.distributed import TCPStore

from accel_runtime import state
from accel_runtime import world as world_module

GRACE = 5.0  # seconds which the others get to report, once one process has failed
torch.set_num_threads(1)  # OpenMP's pool does not survive a fork


class RanksFailed(AssertionError):
    """Some processes raised, died or did not answer in time; `errors` maps each rank to what happened."""

    def __init__(self, errors: dict[int, str]):
        self.errors = errors
        super().__init__("".join(f"\n--- rank {rank} ---\n{text}" for rank, text in sorted(errors.items())))


def run_ranks(
    fn: Callable[..., Any], n: int, *args: Any, timeout: float = 60, env: dict[str, str] | None = None
) -> list[Any]:
    """Return `[fn(*args) on rank 0, ..., on rank n - 1]`.

    `fn` may be a closure; results travel by pickle. `env` adds environment variables in the children only.

    Raises:
        RanksFailed: with the traceback of each process that raised, or what else became of it.
    """
    folder = tempfile.TemporaryDirectory(prefix="ranks-")
    context = multiprocessing.get_context("fork")
    pipes = [context.Pipe(duplex=False) for _ in range(n)]
    finished = context.Event()
    stacks = [tempfile.TemporaryFile("w+") for _ in range(n)]  # noqa: SIM115
    processes = []
    for rank, (_, sender) in enumerate(pipes):
        variables = _environment(rank, n) | (env or {})
        process = context.Process(target=_child, args=(fn, args, variables, Path(folder.name), sender, stacks[rank], finished))
        process.start()
        sender.close()
        processes.append(process)
    try:
        results, errors = _collect([receiver for receiver, _ in pipes], timeout)
        finished.set()
        for rank, text in errors.items():
            if "Traceback" not in text:
                errors[rank] = f"{text}\n{_stack_of(processes[rank], stacks[rank])}"
    finally:
        for process in processes:
            _end(process)
        folder.cleanup()
    if errors:
        raise RanksFailed(errors)
    return [results[rank] for rank in range(n)]


def _environment(rank: int, n: int) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(n),
        "LOCAL_WORLD_SIZE": str(n),
        "MASTER_ADDR": "127.0.0.1",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "ACCELERATE_USE_CPU": "true",
    }


def _child(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    variables: dict[str, str],
    folder: Path,
    sender: Connection,
    stack: IO[str],
    finished: Any,
) -> None:
    gc.freeze()  # what the parent left behind is not the child's to tear down
    faulthandler.register(signal.SIGUSR1, file=stack, all_threads=False)
    os.environ.update(variables)
    state.forget()
    store = _meeting_point(folder, is_master=variables["LOCAL_RANK"] == "0")
    try:
        message = (True, fn(*args))
        sender.send_bytes(pickle.dumps(message))
        finished.wait()  # the others may still be connecting to this process
    except BaseException:
        sender.send_bytes(pickle.dumps((False, traceback.format_exc())))
    world_module.leave()
    del store


def _meeting_point(folder: Path, is_master: bool) -> TCPStore | None:
    """Set MASTER_PORT; on process 0 also open the store there, which lives as long as the result is referenced."""
    noted = folder / "port"
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False) if is_master else None
    if store is not None:
        (folder / "new").write_text(str(store.port))
        (folder / "new").rename(noted)
    while not noted.exists():
        time.sleep(0.001)
    os.environ["MASTER_PORT"] = noted.read_text()
    return store


def _collect(receivers: list[Connection], timeout: float) -> tuple[dict[int, Any], dict[int, str]]:
    deadline = time.monotonic() + timeout
    results: dict[int, Any] = {}
    errors: dict[int, str] = {}
    waiting = {receiver: rank for rank, receiver in enumerate(receivers)}
    while waiting and (left := deadline - time.monotonic()) > 0:
        for receiver in wait(list(waiting), timeout=left):
            rank = waiting.pop(receiver)
            try:
                fine, value = pickle.loads(receiver.recv_bytes())
            except EOFError:
                fine, value = False, "died without an answer"
            (results if fine else errors)[rank] = value
        if errors:
            deadline = min(deadline, time.monotonic() + GRACE)
    for rank in waiting.values():
        errors[rank] = "no answer in time" if not errors else "still running when another process had failed"
    return results, errors


def _stack_of(process: Any, stack: IO[str]) -> str:
    """Where a process that does not answer is, which it writes down itself when it is asked by a signal."""
    if process.is_alive():
        os.kill(process.pid, signal.SIGUSR1)
        time.sleep(0.3)
    stack.seek(0)
    return stack.read().partition("ranks.py")[0]


def _end(process: Any) -> None:
    process.join(1)
    if process.is_alive():
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    process.close()
