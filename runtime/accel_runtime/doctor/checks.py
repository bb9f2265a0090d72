"""The checks of `accel doctor`: from the facts about a machine to findings. A new check is a new function in `CHECKS`."""

from __future__ import annotations

from collections.abc import Iterator

from .checks_torch import build, driver, packages, torch
from .finding import FAIL, OK, WARN, Finding
from .machine import Machine

_GIB, _MIB = 1 << 30, 1 << 20
_DOCKERS_SHARED_MEMORY = 64 * _MIB
_LEAST_OPEN_FILES = 4096
_SHADOWED = (
    "torch",
    "numpy",
    "accelerate",
    "accel_runtime",
    "transformers",
    "random",
    "logging",
    "types",
    "tokenize",
    "queue",
)


def python(machine: Machine) -> Iterator[Finding]:
    name = ".".join(map(str, machine.python))
    if machine.python < (3, 10):
        yield Finding(
            FAIL,
            f"Python {name}: this runtime needs 3.10 or later",
            "conda create -n train python=3.12  # or: uv venv --python 3.12",
        )
    else:
        yield Finding(OK, f"Python {name} on {machine.system}")


def shadowing(machine: Machine) -> Iterator[Finding]:
    for name in sorted({f"{module}.py" for module in _SHADOWED} & set(machine.folder)):
        yield Finding(
            FAIL,
            f"{name} in this folder hides the library of that name from scripts that lie here",
            f"git mv {name} my_{name}",
        )


def communication(machine: Machine) -> Iterator[Finding]:
    facts = machine.torch
    if "error" in facts:
        return
    if not facts.get("distributed"):
        yield Finding(
            FAIL, "this torch was built without torch.distributed", "python -m pip install --force-reinstall torch"
        )
    elif facts.get("cuda") and not facts.get("nccl") and "Windows" not in machine.system:
        yield Finding(
            FAIL,
            "this torch was built without NCCL, by which GPUs exchange gradients",
            "python -m pip install --force-reinstall torch",
        )
    elif facts.get("nccl_version"):
        yield Finding(OK, f"NCCL {facts['nccl_version']}")
    for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
        wanted = machine.environment.get(name, "")
        exact = [part for part in wanted.split(",") if part and part[0] not in "^="] if machine.interfaces else []
        if exact and not any(
            there.startswith(part) if name[0] == "N" else there == part
            for part in exact
            for there in machine.interfaces
        ):
            yield Finding(
                FAIL,
                f"{name} is {wanted} and this machine has {', '.join(machine.interfaces)}",
                f"export {name}={_outward(machine.interfaces)}",
            )
    for name in ("NCCL_P2P_DISABLE", "NCCL_IB_DISABLE", "NCCL_SHM_DISABLE"):
        if machine.gpus and machine.environment.get(name, "0") not in ("", "0"):
            yield Finding(
                WARN,
                f"{name} is set: gradients take a slower way",
                f"unset {name}  # unless it cures a hang on this machine",
            )


def _outward(interfaces: list[str]) -> str:
    return next((name for name in interfaces if not name.startswith(("lo", "docker", "veth", "br-"))), interfaces[0])


def network(machine: Machine) -> Iterator[Finding]:
    if not machine.port:
        yield Finding(
            FAIL,
            "no port can be opened on 127.0.0.1, where the processes of a machine meet",
            "ip link set lo up  # or allow it in the sandbox",
        )
    elif machine.host_resolves:
        yield Finding(OK, "processes of this machine can meet")
    if not machine.host_resolves:
        yield Finding(
            WARN,
            "the name of this machine has no address: processes may fail to find each other",
            'echo "127.0.1.1 $(hostname)" >> /etc/hosts',
        )
    if machine.default_port_taken:
        yield Finding(
            WARN,
            "port 29500, which torchrun takes by default, is in use",
            "accel launch SCRIPT  # takes a free port; torchrun: --standalone",
        )


def limits(machine: Machine) -> Iterator[Finding]:
    if machine.shared_memory is not None:
        free, total = machine.shared_memory
        mend = (
            "docker run --ipc=host ...  (or --shm-size 16g; in Kubernetes an emptyDir with medium: Memory on /dev/shm)"
        )
        if total <= _DOCKERS_SHARED_MEMORY:
            yield Finding(
                FAIL,
                f"shared memory is {total // _MIB} MiB, a container's default: loader workers die of it with a bus error",
                mend,
            )
        elif free < _GIB:
            yield Finding(
                WARN,
                f"shared memory: {free // _MIB} MiB of {total // _MIB} MiB are free",
                "ls -la /dev/shm  # files of ended programs may be removed",
            )
        else:
            yield Finding(OK, f"shared memory: {free / _GIB:.1f} GiB free")
    if machine.open_files < _LEAST_OPEN_FILES:
        yield Finding(
            WARN,
            f"a process may open {machine.open_files} files: loaders with many workers need more",
            "ulimit -n 65536",
        )
    if machine.infiniband and machine.locked_memory is not None:
        yield Finding(
            WARN,
            f"memory that may be locked is limited to {machine.locked_memory // _MIB} MiB: InfiniBand needs more",
            "ulimit -l unlimited  # in a container: docker run --ulimit memlock=-1",
        )


def environment(machine: Machine) -> Iterator[Finding]:
    left = [
        name
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
        if machine.environment.get(name)
    ]
    if left:
        yield Finding(
            WARN,
            f"{', '.join(left)} are set in this shell: a script started with plain python takes itself for one of several",
            f"unset {' '.join(left)}",
        )
    path = machine.environment.get("LD_LIBRARY_PATH", "")
    if machine.torch.get("cuda") and any(word in path.lower() for word in ("cuda", "cudnn", "nccl")):
        yield Finding(
            WARN,
            "LD_LIBRARY_PATH names CUDA libraries, which may be found before those that torch brings",
            "unset LD_LIBRARY_PATH  # if an import fails with an undefined symbol",
        )


CHECKS = (python, shadowing, torch, driver, build, communication, network, limits, environment, packages)


def findings(machine: Machine) -> list[Finding]:
    """All findings, in the order of the checks."""
    return [finding for check in CHECKS for finding in check(machine)]
