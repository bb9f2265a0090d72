"""The facts about a machine that decide whether and how it trains. Gathered in one place, so that checks are plain functions."""

from __future__ import annotations

import csv
import importlib.metadata
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import probe

PACKAGES = (
    "accel-migrate",
    "torch",
    "torchvision",
    "numpy",
    "accelerate",
    "transformers",
    "deepspeed",
    "torchao",
    "safetensors",
    "peft",
)
_SECONDS = 120


@dataclass(frozen=True)
class Gpu:
    """One GPU, as its driver names it; memory in MiB, `capability` such as (9, 0)."""

    name: str
    capability: tuple[int, int]
    memory: int


@dataclass
class Machine:
    """What there is.

    Attributes:
        torch: what torch says (see `probe`), or `error` with a traceback.
        driver: version of the NVIDIA driver, "" without one.
        driver_error: what nvidia-smi complained of.
        gpus: NVIDIA GPUs.
        amd: whether there is an AMD GPU for computing.
        packages: installed package -> version.
        shared_memory: free and total bytes of /dev/shm, None where there is none.
        open_files: how many files a process may have open.
        locked_memory: bytes that a process may lock in memory, None if unlimited.
        infiniband: whether there are InfiniBand devices.
        interfaces: names of the network interfaces.
        host_resolves: whether this machine's own name has an address.
        port: whether a port can be opened on 127.0.0.1.
        default_port_taken: whether 29500 is in use.
        environment: the variables of this process.
        folder: names of the files in the present folder.
    """

    torch: dict[str, Any] = field(default_factory=dict)
    python: tuple[int, int] = (3, 11)
    system: str = "Linux"
    cores: int = 1
    memory: int = 0
    driver: str = ""
    driver_error: str = ""
    gpus: list[Gpu] = field(default_factory=list)
    amd: bool = False
    packages: dict[str, str] = field(default_factory=dict)
    shared_memory: tuple[int, int] | None = None
    open_files: int = 65536
    locked_memory: int | None = None
    infiniband: bool = False
    interfaces: list[str] = field(default_factory=list)
    host_resolves: bool = True
    port: bool = True
    default_port_taken: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: list[str] = field(default_factory=list)


def look() -> Machine:
    """This machine, seen from this interpreter; takes as long as importing torch does."""
    found = Machine(
        torch=_torch(),
        python=sys.version_info[:2],
        system=platform.platform(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory=_memory(),
        amd=Path("/dev/kfd").exists(),
        packages=_packages(),
        shared_memory=_shared_memory(),
        infiniband=Path("/dev/infiniband").is_dir(),
        interfaces=[name for _, name in socket.if_nameindex()] if hasattr(socket, "if_nameindex") else [],
        host_resolves=_resolves(socket.gethostname()),
        port=_opens(0),
        default_port_taken=not _opens(29500),
        environment=dict(os.environ),
        folder=sorted(os.listdir()),
    )
    found.driver, found.gpus, found.driver_error = _nvidia()
    found.open_files, found.locked_memory = _limits()
    return found


def _torch() -> dict[str, Any]:
    try:
        done = subprocess.run([sys.executable, probe.__file__], capture_output=True, text=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        return {"error": f"importing torch took more than {_SECONDS} seconds"}
    try:
        return dict(json.loads(done.stdout.splitlines()[-1]))
    except (ValueError, IndexError):  # the process died, or something printed
        return {"error": done.stderr.strip() or f"importing torch ended the process with {done.returncode}"}


def _nvidia() -> tuple[str, list[Gpu], str]:
    if shutil.which("nvidia-smi") is None:
        return "", [], ""
    query = ["nvidia-smi", "--query-gpu=driver_version,name,compute_cap,memory.total", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", [], str(error)
    if done.returncode:
        return "", [], (done.stdout + done.stderr).strip()
    rows = [[cell.strip() for cell in row] for row in csv.reader(done.stdout.splitlines()) if len(row) == 4]
    return (
        (rows[0][0] if rows else ""),
        [Gpu(name, _capability(text), _number(memory)) for _, name, text, memory in rows],
        "",
    )


def _capability(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return _number(major), _number(minor)


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _packages() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0


def _shared_memory() -> tuple[int, int] | None:
    try:
        usage = shutil.disk_usage("/dev/shm")
    except OSError:
        return None
    return usage.free, usage.total


def _limits() -> tuple[int, int | None]:
    try:
        import resource
    except ImportError:  # Windows
        return 65536, None
    files, locked = resource.getrlimit(resource.RLIMIT_NOFILE)[0], resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return (1 << 30 if files == resource.RLIM_INFINITY else files), (
        None if locked == resource.RLIM_INFINITY else locked
    )


def _resolves(name: str) -> bool:
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return False
    return True


def _opens(port: int) -> bool:
    with socket.socket() as probing:
        probing.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probing.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
