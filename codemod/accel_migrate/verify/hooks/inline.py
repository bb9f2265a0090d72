"""Scripts that start their processes themselves: each traced process is one of them, and runs the function in place.

What the script does outside of that function every process does, but only the first prints.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

_RUN_ENVIRONMENT = ("MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")


def run_in_place(rank: int, processes: int) -> None:
    """Patch what starts processes, and process groups, which the script would make with an address of its own."""
    import torch.multiprocessing as multiprocessing

    caller = _Caller(rank, processes)
    caller.be_quiet()
    multiprocessing.spawn = multiprocessing.start_processes = caller.spawn  # type: ignore[assignment]
    _replace_process(multiprocessing, caller)
    for name in ("accel_runtime", "accelerate"):
        module = _imported(name)
        for launcher in ("notebook_launcher", "debug_launcher"):
            if hasattr(module, launcher):
                setattr(module, launcher, caller.launch)
    _join_the_run(processes)


class _Caller:
    def __init__(self, rank: int, processes: int) -> None:
        self.rank, self.processes, self.stdout = rank, processes, sys.stdout

    def be_quiet(self) -> None:
        if self.rank:
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        sys.stdout, before = self.stdout, sys.stdout
        try:
            function(*args, **kwargs)
        finally:
            sys.stdout.flush()
            sys.stdout = before

    def spawn(self, fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, *_: Any, **__: Any) -> _Done:
        """As `torch.multiprocessing.spawn`. Where the script would start another number, it is told of this one."""
        self.call(fn, self.rank, *_told(args, nprocs, self.processes))
        return _Done()

    def launch(self, function: Callable[..., Any], args: tuple[Any, ...] = (), *_: Any, **__: Any) -> None:
        """As `notebook_launcher`."""
        self.call(function, *args)


class _Done:
    """The context of processes that have ended."""

    exitcode = 0

    def join(self, *_: Any, **__: Any) -> bool:
        return True


def _told(args: tuple[Any, ...], started: int, processes: int) -> tuple[Any, ...]:
    """`args` with the first number of processes in it as it is here."""
    place = next((n for n, value in enumerate(args) if type(value) is int and value == started), None)
    return args if place is None else (*args[:place], processes, *args[place + 1 :])


def _replace_process(multiprocessing: Any, caller: _Caller) -> None:
    import multiprocessing as standard

    plain = standard.Process
    made: list[Any] = []

    class InPlace:
        exitcode, pid = 0, 0

        def __init__(self, group: Any = None, target: Any = None, name: Any = None, args: Any = (), kwargs: Any = None, **_: Any) -> None:
            self.number, self.target, self.args, self.kwargs = len(made), target, args, kwargs or {}
            made.append(self)

        def start(self) -> None:
            if self.number == caller.rank:
                caller.call(self.target, *self.args, **self.kwargs)

        def join(self, *_: Any) -> None:
            """It has ended; processes that are started from here on are others."""
            if made and len(made) != caller.processes:
                raise RuntimeError(f"this script starts {len(made)} processes: verify it with --processes {len(made)}")
            made.clear()

        def is_alive(self) -> bool:
            return False

        terminate = kill = close = join

    def make(*args: Any, **kwargs: Any) -> Any:
        target = kwargs.get("target")
        of_loader = getattr(target, "__module__", "").startswith("torch.")
        return plain(*args, **kwargs) if of_loader else InPlace(*args, **kwargs)

    standard.Process = multiprocessing.Process = make  # type: ignore[assignment,misc]


def _join_the_run(processes: int) -> None:
    """A process group as it is here, whatever address, rank and size the script gives it."""
    import torch
    import torch.distributed as dist

    environment = {name: os.environ[name] for name in _RUN_ENVIRONMENT}
    start = dist.init_process_group

    @functools.wraps(start)
    def init_process_group(backend: Any = None, *_: Any, **kwargs: Any) -> None:
        os.environ.update(environment)
        start(backend, **{name: kwargs[name] for name in ("timeout", "device_id") if name in kwargs})

    dist.init_process_group = init_process_group
    if torch.cuda.device_count() < processes:
        torch.cuda.device_count = lambda: processes


def _imported(name: str) -> Any:
    """The module, if it is used or costs next to nothing to import."""
    if name == "accel_runtime":
        try:
            import accel_runtime
        except ImportError:
            return None
        return accel_runtime
    return sys.modules.get(name)
