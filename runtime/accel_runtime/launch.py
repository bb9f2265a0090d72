"""`accel launch SCRIPT ARGS`: start a script on several processes of this machine, or of several machines.

Built on torchrun's agent, run inside this process: each of the script's processes finds RANK, WORLD_SIZE and so on in
its environment, on CPU as on GPU. On one machine a free port is found for the rendezvous. If a process fails, the
others are stopped and its exit code becomes the launcher's.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .launch_arguments import LaunchError, parse


def main(argv: Sequence[str] | None = None) -> int:
    """Run the script that the command line names; return its exit code, or 2 for a wrong command line.

    With one process this one is replaced by the script's.
    """
    try:
        options = parse(argv)
        _check_script(options)
        processes = _processes(options)
        os.environ.update(_environment(options, processes // options.num_machines))
    except LaunchError as error:
        print(f"accel launch: {error}", file=sys.stderr)
        return 2
    if processes == 1:
        return _become(_command(options))
    return _run_together(options, processes)


def _check_script(options: argparse.Namespace) -> None:
    if not (options.module or options.no_python or Path(options.training_script).is_file()):
        raise LaunchError(f"no such script: {options.training_script}")


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


def _become(command: list[str]) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"accel launch: cannot run {command[0]}: {error.strerror}", file=sys.stderr)
        return 2


def _run_together(options: argparse.Namespace, processes: int) -> int:
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    config: Any = LaunchConfig(**_rendezvous(options, processes // options.num_machines))
    command = _command(options)
    try:
        elastic_launch(config, command[0])(*command[1:])
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        print(f"accel launch: process {rank} of {processes} failed first, {_how(failure.exitcode)}; the others were stopped", file=sys.stderr)
        return 128 - failure.exitcode if failure.exitcode < 0 else failure.exitcode
    except SignalException as error:
        return 128 + int(error.sigval)
    return 0


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
    endpoint = f"{options.main_process_ip or '127.0.0.1'}:{options.main_process_port or 29500}"
    if options.rdzv_backend == "static":
        return settings | {"rdzv_backend": "static", "rdzv_endpoint": endpoint, "rdzv_configs": {"rank": options.machine_rank, "timeout": 900}}
    return settings | {"rdzv_backend": options.rdzv_backend, "rdzv_endpoint": endpoint}


def _how(exit_code: int) -> str:
    return f"killed by signal {-exit_code}" if exit_code < 0 else f"with exit code {exit_code}"


if __name__ == "__main__":
    sys.exit(main())
