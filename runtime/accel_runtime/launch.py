"""`accel launch SCRIPT ARGS`: start a script on several processes of this machine, or of several machines.

Built on torchrun's agent, run inside this process: each of the script's processes finds RANK, WORLD_SIZE and so on in
its environment, on CPU as on GPU. On one machine a free port is found for the rendezvous. If a process fails, the
others are stopped and its exit code becomes the launcher's.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, NoReturn

from .launch_arguments import LaunchError, parse
from .launch_notes import FOLDER, Notes


def main(argv: Sequence[str] | None = None) -> int:
    """Run the script that the command line names; return its exit code, or 2 for a wrong command line.

    With one process this one is replaced by the script's. An interrupt (Ctrl-C) is passed on to the processes; 130.
    """
    try:
        options = parse(argv)
        _check_script(options)
        processes = _processes(options)
        os.environ.update(_environment(options, processes // options.num_machines))
        if processes == 1:
            _become(_command(options))
        return _run_together(options, processes)
    except LaunchError as error:
        return _say(str(error), 2)
    except KeyboardInterrupt:
        return _say("interrupted; all processes have been stopped", 130)


def _say(message: str, exit_code: int) -> int:
    print(f"accel launch: {message}", file=sys.stderr)
    return exit_code


def _check_script(options: argparse.Namespace) -> None:
    """What is to be run must be there: otherwise each process would complain for itself."""
    script = options.training_script
    if options.module:
        if PathFinder.find_spec(script.partition(".")[0], [os.getcwd(), *sys.path]) is None:
            raise LaunchError(f"there is no module {script}: -m takes the name of a module, as after `python -m`")
    elif options.no_python:
        if shutil.which(script) is None:
            raise LaunchError(f"{script} is no program: --no_python takes one that can be executed, by its path or from PATH")
    elif not (Path(script).is_file() or Path(script, "__main__.py").is_file()):
        what = "a folder without __main__.py" if Path(script).is_dir() else "not there"
        raise LaunchError(f"no such script: {script} is {what}; give the path of a Python file")


def _processes(options: argparse.Namespace) -> int:
    """How many processes to start on all machines together.

    Raises:
        LaunchError: there are not as many devices, or the machines would get different numbers.
    """
    devices = 0 if options.cpu else _count_devices(options.gpu_ids)
    asked = options.num_processes or max(devices, 1) * options.num_machines
    if asked % options.num_machines:
        raise LaunchError(f"--num_processes {asked} does not divide among --num_machines {options.num_machines}: it counts the processes of all machines together")
    here = asked // options.num_machines
    if 0 < devices < here:
        raise LaunchError(f"{here} processes were asked for on this machine and it has {devices} devices: use --num_processes {devices * options.num_machines}, or --cpu")
    return asked


def _count_devices(gpu_ids: str) -> int:
    if gpu_ids != "all":
        return len(gpu_ids.split(","))
    import torch

    accelerator = torch.accelerator.current_accelerator(check_available=True)
    return torch.accelerator.device_count() if accelerator is not None and accelerator.type != "mps" else 0


def _environment(options: argparse.Namespace, local_processes: int) -> dict[str, str]:
    """What the script's processes find in their environment besides torchrun's variables."""
    names = {
        "ACCELERATE_MIXED_PRECISION": options.mixed_precision,
        "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": options.gradient_accumulation_steps,
        "ACCELERATE_USE_CPU": "true" if options.cpu else None,
        "ACCELERATE_DEBUG_MODE": "true" if options.debug else None,
        "CUDA_VISIBLE_DEVICES": None if options.gpu_ids == "all" else options.gpu_ids,
        "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0"),  # sets of strings in one order on all processes
        "OMP_NUM_THREADS": _threads(options.num_cpu_threads_per_process, local_processes),
    }
    return {name: str(value) for name, value in names.items() if value is not None}


def _threads(asked: int | None, local_processes: int) -> int | None:
    """The cores of this machine, shared out, unless it was said otherwise; one process is left as it is."""
    if asked is not None:
        return asked
    if local_processes == 1 or "OMP_NUM_THREADS" in os.environ:
        return None
    return max(1, len(os.sched_getaffinity(0)) // local_processes) if hasattr(os, "sched_getaffinity") else 1


def _command(options: argparse.Namespace) -> list[str]:
    if options.no_python:
        return [options.training_script, *options.training_script_args]
    interpreter = [sys.executable, "-u", *(["-m"] if options.module else [])]
    return [*interpreter, options.training_script, *options.training_script_args]


def _become(command: list[str]) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvp(command[0], command)
    except OSError as error:
        raise LaunchError(f"cannot run {command[0]}: {error.strerror}") from None


def _run_together(options: argparse.Namespace, processes: int) -> int:
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    here = processes // options.num_machines
    config: Any = LaunchConfig(**_rendezvous(options, here), **_own_interrupts(LaunchConfig))
    command = _command(options)
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # what it has to say is said below
    with tempfile.TemporaryDirectory(prefix="accel-launch-") as folder:
        notes = Notes(folder)
        os.environ[FOLDER] = folder
        signal.signal(signal.SIGINT, functools.partial(_interrupt, notes, here))
        try:
            elastic_launch(config, command[0])(*command[1:])
        except ChildFailedError as error:
            if notes.interrupted:
                raise KeyboardInterrupt from None
            return _report(error, notes, processes)
        except SignalException as error:
            if int(error.sigval) == signal.SIGINT:
                raise KeyboardInterrupt from None
            return _say(f"stopped by signal {int(error.sigval)}; all processes have been stopped", 128 + int(error.sigval))
        except (RuntimeError, OSError) as error:
            raise LaunchError(f"the processes could not be started together: {' '.join(str(error).split())}") from None
    return 0


def _interrupt(notes: Notes, processes: int, signum: int, frame: Any) -> None:
    """Ctrl-C: as without a launcher, the scripts may catch it; the second time, or before all have begun, all are ended."""
    running = notes.running()
    if notes.interrupted or len(running) < processes:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        notes.interrupt()
        raise KeyboardInterrupt
    notes.interrupt()
    for pid in running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)


def _own_interrupts(config: Any) -> dict[str, str]:
    """Leave SIGINT to this module, where torch's agent lets others handle it."""
    return {"signals_to_handle": "SIGTERM,SIGHUP,SIGQUIT"} if "signals_to_handle" in config.__dataclass_fields__ else {}


def _report(error: Any, notes: Notes, processes: int) -> int:
    ranks = {failure.pid: rank for rank, failure in error.failures.items()}
    first = notes.first(error.failures.values())
    how = f"killed by signal {-first.exitcode}" if first.exitcode < 0 else f"with exit code {first.exitcode}"
    return _say(
        f"process {ranks[first.pid]} of {processes} failed first, {how}; the others were stopped",
        128 - first.exitcode if first.exitcode < 0 else first.exitcode,
    )


def _rendezvous(options: argparse.Namespace, local_processes: int) -> dict[str, Any]:
    """The settings of torchrun's agent: processes per machine and where machines meet."""
    from torch.distributed.elastic.multiprocessing.api import DefaultLogsSpecs

    settings: dict[str, Any] = {
        "min_nodes": options.num_machines,
        "max_nodes": options.num_machines,
        "nproc_per_node": local_processes,
        "logs_specs": DefaultLogsSpecs(),
        "max_restarts": options.max_restarts,
        "monitor_interval": options.monitor_interval,
        "run_id": "accel",
    }
    if options.num_machines == 1 and not options.main_process_port:
        return settings | {"rdzv_backend": "c10d", "rdzv_endpoint": "localhost:0"}
    _check_port(options)
    endpoint = f"{options.main_process_ip or '127.0.0.1'}:{options.main_process_port or 29500}"
    if options.rdzv_backend == "static":
        return settings | {"rdzv_backend": "static", "rdzv_endpoint": endpoint, "rdzv_configs": {"rank": options.machine_rank, "timeout": 900}}
    return settings | {"rdzv_backend": options.rdzv_backend, "rdzv_endpoint": endpoint}


def _check_port(options: argparse.Namespace) -> None:
    """Machine 0 opens the meeting point."""
    port = options.main_process_port or 29500
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            if options.machine_rank == 0:
                probe.bind(("", port))
        except OSError as error:
            raise LaunchError(f"port {port} of this machine cannot be used ({error.strerror}): give a free one with --main_process_port") from None


if __name__ == "__main__":
    sys.exit(main())
