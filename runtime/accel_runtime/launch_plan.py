"""What a launch starts: how many processes, with which command and environment, and where they meet."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from .launch_network import address_towards, await_machine, interface_towards
from .settings.errors import LaunchError
from .settings.offered import SECTIONS
from .settings.table import SETTINGS

MEETING = 900
"""Seconds in which the machines must have met, unless `--rdzv_conf timeout=` says otherwise."""


@dataclass(frozen=True)
class Plan:
    """A launch, ready to start.

    Attributes:
        options: what was asked for.
        command: what each process runs.
        environment: the variables that each process finds besides the present ones and torchrun's.
        processes: on all machines together.
    """

    options: argparse.Namespace
    command: list[str]
    environment: dict[str, str]
    processes: int

    @property
    def here(self) -> int:
        """Processes on this machine."""
        return self.processes // self.options.num_machines

    @property
    def alone(self) -> bool:
        """Whether one process can simply take this one's place."""
        return self.processes == 1 and not self.options.log_dir and not self.options.max_restarts


def make(options: argparse.Namespace) -> Plan:
    """The plan for `options`.

    Raises:
        LaunchError: the script is not there, or the processes do not fit the devices or the machines.
    """
    _check_script(options)
    processes = _processes(options)
    return Plan(options, _command(options), _environment(options, processes // options.num_machines), processes)


def _check_script(options: argparse.Namespace) -> None:
    """What is to be run must be there: otherwise each process would complain for itself."""
    script = options.training_script
    if options.module:
        if PathFinder.find_spec(script.partition(".")[0], [os.getcwd(), *sys.path]) is None:
            raise LaunchError(f"there is no module {script}: -m takes the name of a module, as after `python -m`")
    elif options.no_python:
        if shutil.which(script) is None:
            raise LaunchError(
                f"{script} is no program: --no_python takes one that can be executed, by its path or from PATH"
            )
    elif not (Path(script).is_file() or Path(script, "__main__.py").is_file()):
        what = "a folder without __main__.py" if Path(script).is_dir() else "not there"
        raise LaunchError(f"no such script: {script} is {what}; give the path of a Python file")


def _processes(options: argparse.Namespace) -> int:
    """How many processes to start on all machines together."""
    if options.tpu:
        return 1
    devices = 0 if options.cpu else count_devices(options.gpu_ids)
    asked = options.num_processes or max(devices, 1) * options.num_machines
    if asked % options.num_machines:
        raise LaunchError(
            f"--num_processes {asked} does not divide among --num_machines {options.num_machines}: it counts the processes of all machines together"
        )
    here = asked // options.num_machines
    if 0 < devices < here:
        raise LaunchError(
            f"{here} processes were asked for on this machine and it has {devices} devices: use --num_processes {devices * options.num_machines}, or --cpu"
        )
    return int(asked)


def count_devices(gpu_ids: str) -> int:
    """Accelerators of this machine, or as many as `gpu_ids` names; Apple's is one that processes cannot share: 0."""
    if gpu_ids != "all":
        return len(gpu_ids.split(","))
    import torch

    accelerator = torch.accelerator.current_accelerator(check_available=True)
    return torch.accelerator.device_count() if accelerator is not None and accelerator.type != "mps" else 0


def _environment(options: argparse.Namespace, local_processes: int) -> dict[str, str]:
    """What the processes find in their environment: of each strategy only what was given, so that its own defaults hold."""
    off = {section for section, switch in SECTIONS.items() if not getattr(options, switch)}
    values = {s.variable: getattr(options, s.name) for s in SETTINGS.values() if s.variable and s.section not in off}
    values |= {
        "ACCELERATE_USE_CPU": options.cpu,
        "ACCELERATE_TORCH_DEVICE": "xla" if options.tpu else None,
        "CUDA_VISIBLE_DEVICES": None if options.gpu_ids == "all" else options.gpu_ids,
        "GLOO_SOCKET_IFNAME": _interface(options),
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1" if _may_come_back(options) else None,
        "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0"),  # sets of strings in one order on all processes
        "OMP_NUM_THREADS": threads(options.num_cpu_threads_per_process, local_processes),
    }
    settings = {setting.variable for setting in SETTINGS.values() if setting.section or not setting.kind.flag}
    return {
        name: _spelled(value)
        for name, value in values.items()
        if value is not None and (value is not False or name in settings)
    }


def _may_come_back(options: argparse.Namespace) -> bool:
    """Whether a machine may meet the others again: it would wait for ever for an address that torch gives out only once."""
    return bool(options.num_machines > 1 and options.rdzv_backend == "c10d")


def _interface(options: argparse.Namespace) -> str | None:
    if options.num_machines == 1 or "GLOO_SOCKET_IFNAME" in os.environ:
        return None
    return interface_towards(options.main_process_ip)


def _spelled(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def threads(asked: int | None, local_processes: int) -> int | None:
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


def meeting(options: argparse.Namespace) -> tuple[str, str, dict[str, Any]]:
    """Backend, address and settings of torch's rendezvous; on one machine any free port, unless one was given."""
    further = _pairs(options.rdzv_conf or "")
    if options.num_machines == 1 and not options.main_process_port:
        return "c10d", "localhost:0", further
    endpoint = f"{options.main_process_ip or '127.0.0.1'}:{options.main_process_port or 29500}"
    if options.rdzv_backend == "static":
        return "static", endpoint, {"rank": options.machine_rank, "timeout": MEETING, **further}
    # A machine does not always recognise its own address (in a container, for one), so that none of them would open the port.
    return options.rdzv_backend, endpoint, {"is_host": options.machine_rank == 0, **further}


def _pairs(text: str) -> dict[str, Any]:
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    if any(not equals or not key.strip() for key, equals, _ in pairs):
        raise LaunchError(f"--rdzv_conf: {text!r} is not of the form NAME=VALUE,NAME=VALUE")
    return {key.strip(): value.strip() for key, _, value in pairs}


def await_main_machine(options: argparse.Namespace, say: Callable[[str], object]) -> None:
    """On any machine but the main one: return when that answers. Etcd is a meeting place of its own.

    Raises:
        LaunchError: it does not in time.
    """
    backend, endpoint, further = meeting(options)
    if options.machine_rank and backend in ("static", "c10d"):
        host, _, port = endpoint.rpartition(":")
        await_machine(host, int(port), float(further.get("timeout", MEETING)), say)


def check_port(options: argparse.Namespace) -> None:
    """Machine 0 opens the meeting point.

    Raises:
        LaunchError: the port that was given is taken, or not this user's to open.
    """
    port = options.main_process_port or 29500
    if options.machine_rank or (options.num_machines == 1 and not options.main_process_port):
        return
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            raise LaunchError(
                f"port {port} of this machine cannot be used ({error.strerror}): give a free one with --main_process_port"
            ) from None


def shown(plan: Plan) -> str:
    """The launch as a line for a shell: plain Python for one process, else torchrun."""
    variables = [f"{name}={shlex.quote(value)}" for name, value in sorted(plan.environment.items())]
    return " ".join([*variables, shlex.join(plan.command if plan.alone else _torchrun(plan))])


def _torchrun(plan: Plan) -> list[str]:
    options = plan.options
    backend, endpoint, further = meeting(options)
    line = [
        "torchrun",
        "--nnodes",
        str(options.num_machines),
        "--nproc-per-node",
        str(plan.here),
        "--rdzv-backend",
        backend,
    ]
    if backend == "static":
        host, _, port = endpoint.rpartition(":")
        line += ["--node-rank", str(further.pop("rank")), "--master-addr", host, "--master-port", port]
    else:
        line += ["--rdzv-endpoint", endpoint]
        own = address_towards(options.main_process_ip) if options.num_machines > 1 else None
        line += ["--local-addr", own] if own else []
    if further:
        line += ["--rdzv-conf", ",".join(f"{key}={_spelled(value)}" for key, value in further.items())]
    if options.max_restarts:
        line += ["--max-restarts", str(options.max_restarts)]
    if options.log_dir:
        line += ["--log-dir", options.log_dir, "--redirects", "3", "--tee", options.tee or "3"]
    switches = [f"--{name.replace('_', '-')}" for name in ("module", "no_python") if getattr(options, name)]
    return [*line, *switches, options.training_script, *options.training_script_args]
