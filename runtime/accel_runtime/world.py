"""Who is training: this process's rank, how many processes there are, and the device it owns.

`World.from_environment` reads what torchrun sets (`RANK`, `WORLD_SIZE`, `LOCAL_RANK`, `LOCAL_WORLD_SIZE`; an MPI
launcher's variables are understood too) and joins the process group: NCCL and its kin on accelerators, gloo on CPU,
where two launched processes are two connected processes. `ACCELERATE_USE_CPU=true` asks for the CPU like `cpu=True`,
`ACCELERATE_TORCH_DEVICE` names one device.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from . import devices, launch_notes, watching, xla

if TYPE_CHECKING:
    from .kwargs import InitProcessGroupKwargs

_MPI_NAMES = {
    "RANK": ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK"),
    "WORLD_SIZE": ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE"),
    "LOCAL_RANK": ("MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK"),
    "LOCAL_WORLD_SIZE": ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE"),
}


@dataclass(frozen=True)
class World:
    """The processes that train together, seen from one of them.

    Attributes:
        rank: index of this process among all, 0 to `size - 1`.
        local_rank: index among the processes of this machine.
        size: number of processes; 1 means that there is no process group.
        local_size: number of processes on this machine.
        device: the device which this process computes on.
        backend: the backend that serves `device` ("nccl", "gloo", ...), None on one process.
        wire_types: device types whose tensors the process group moves without a detour.
        group: the process group of these processes, None for all.
        whole: all processes, where each batch is shared out to groups of several which compute one model together: then
            these are one process of each group, in the order of the groups. None: these are all.
    """

    rank: int = 0
    local_rank: int = 0
    size: int = 1
    local_size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    backend: str | None = None
    wire_types: frozenset[str] = frozenset({"cpu"})
    group: Any = None
    whole: World | None = None

    @property
    def together(self) -> World:
        """All processes, where these are only the ones that share out batches."""
        return self.whole or self

    @property
    def is_main(self) -> bool:
        """Whether this is the main process, rank 0."""
        return self.rank == 0

    @property
    def is_local_main(self) -> bool:
        """Whether this is the main process of its machine."""
        return self.local_rank == 0

    def wire(self, device: torch.device | None = None) -> torch.device:
        """The device on which a collective over data of `device` (default: the host) has to run."""
        device = device or torch.device("cpu")
        return device if device.type in self.wire_types else self.device

    @staticmethod
    def from_environment(cpu: bool = False, init_kwargs: InitProcessGroupKwargs | None = None) -> World:
        """The world of this process: made, and the process group joined, at the first call; the same one afterwards.

        Args:
            cpu: train on the CPU even where there is an accelerator.
            init_kwargs: backend, rendezvous address and timeout for `torch.distributed.init_process_group`.

        Raises:
            ValueError: the environment contradicts itself, the device, or an earlier call with another device.
        """
        cpu = cpu or flag("ACCELERATE_USE_CPU")
        known = current()
        if known is not None:
            _check_same_device(known, cpu)
            return known
        return _remember(_make(cpu, init_kwargs))


def current() -> World | None:
    """The world made earlier in this very process, if any (a forked child starts without one)."""
    return _current[1] if _current is not None and _current[0] == os.getpid() else None


def rank() -> int:
    """The rank of this process; before the world is made, what the launcher's environment says."""
    world = current()
    return _number("RANK", 0) if world is None else world.rank


def forget() -> None:
    """Forget the world, so that the next call makes a new one; an open process group stays open and is found again."""
    global _current
    _current = None


def leave() -> None:
    """Leave the process group, if there is one, and forget the world."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()
    forget()


_current: tuple[int, World] | None = None


def _remember(world: World) -> World:
    global _current
    _current = (os.getpid(), world)
    launch_notes.begin()
    return world


def _make(cpu: bool, init_kwargs: InitProcessGroupKwargs | None) -> World:
    size, rank = _number("WORLD_SIZE", 1), _number("RANK", 0)
    local_rank, local_size = _number("LOCAL_RANK", 0), _number("LOCAL_WORLD_SIZE", size)
    if not 0 <= rank < size:
        raise ValueError(f"RANK is {rank} and WORLD_SIZE is {size}: RANK must be from 0 to {size - 1}; start the script with torchrun or `accel launch`")
    device = _device(cpu, local_rank, local_size)
    joined = dist.is_available() and dist.is_initialized()
    if size == 1 and not joined:
        return World(device=device)
    launch_notes.take_part()  # before the processes meet: one may fail while it waits for another that has failed
    if not joined:
        _join(rank, size, device, init_kwargs)
    size, rank = dist.get_world_size(), dist.get_rank()
    if size == 1:
        return World(device=device)
    backends = _backends()
    if device.type == "cpu":
        watching.watch(rank, size)
    return World(rank, local_rank, size, min(local_size, size), device, _serving(backends, device), frozenset(backends))


def _device(cpu: bool, local_rank: int, local_size: int) -> torch.device:
    """The device of this process; the accelerator's current device is set to it."""
    named = os.environ.get("ACCELERATE_TORCH_DEVICE")
    if named and not cpu:
        return devices.named(named)
    if xla.asked_for() and not cpu:
        return xla.open_device("PJRT_DEVICE")
    accelerator = None if cpu else torch.accelerator.current_accelerator(check_available=True)
    if accelerator is None or (accelerator.type == "mps" and local_size > 1):
        return torch.device("cpu")
    if accelerator.type == "mps":
        return accelerator
    if local_size == 1:
        return torch.device(accelerator.type, torch.accelerator.current_device_index())
    count = torch.accelerator.device_count()
    if local_rank >= count:
        raise ValueError(
            f"process {local_rank} of this machine has no device: there are {local_size} processes and {count} {accelerator.type} devices; "
            "start fewer processes, or train on the CPU with `accel launch --cpu` or Accelerator(cpu=True)"
        )
    device = torch.device(accelerator.type, local_rank)
    torch.accelerator.set_device_index(local_rank)
    return device


def _join(rank: int, size: int, device: torch.device, init_kwargs: InitProcessGroupKwargs | None) -> None:
    from .utils.environment import patch_environment

    options: dict[str, Any] = {k: v for k, v in vars(init_kwargs).items() if v is not None} if init_kwargs else {}
    backend = options.pop("backend", None)
    if backend is None or (backend == "nccl" and device.type == "cpu"):
        # Host tensors (random states, objects) then travel without passing through the accelerator.
        backend = "gloo" if device.type == "cpu" else None
    if device.type != "cpu":
        options["device_id"] = device
    if options.get("init_method", "env://") == "env://":
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", "29500")
        if (store := _store_of_restart(size)) is not None:
            options.pop("init_method", None)
            options["store"] = store
    with patch_environment(TORCH_DIST_INIT_BARRIER="1"):  # or one may be done, and gone, while another still connects to it
        dist.init_process_group(backend, rank=rank, world_size=size, **options)


def _store_of_restart(size: int) -> Any:
    """Where the processes meet after torchrun has started them anew; None otherwise.

    torchrun keeps its store, with the addresses of the processes that are gone. On one machine all processes know how often
    they were started; on several, `TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1` makes torchrun open a new store each time.
    """
    restarts = _number("TORCHELASTIC_RESTART_COUNT", 0)
    if not restarts or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True" or _number("LOCAL_WORLD_SIZE", 0) != size:
        return None
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    return dist.PrefixStore(f"restart_{restarts}", store)


def _backends() -> dict[str, str]:
    """Device type -> backend of the open process group, e.g. {"cpu": "gloo", "cuda": "nccl"}."""
    pairs = (pair.split(":") for pair in dist.get_backend_config().split(","))
    return dict(pairs)  # type: ignore[arg-type]


def _serving(backends: dict[str, str], device: torch.device) -> str:
    if device.type not in backends:
        raise ValueError(
            f"the process group serves {sorted(backends)} and this process computes on {device.type!r}: "
            "let Accelerator open the process group, or choose a matching backend"
        )
    return backends[device.type]


def _check_same_device(known: World, cpu: bool) -> None:
    if cpu and known.device.type != "cpu":
        raise ValueError(
            f"cpu=True was given, but this process already trains on {known.device}: "
            "pass cpu=True where the first Accelerator or PartialState is made"
        )


def _number(name: str, default: int) -> int:
    """The integer in the environment variable `name`, or in an MPI launcher's counterpart."""
    found = next((key for key in (name, *_MPI_NAMES.get(name, ())) if os.environ.get(key)), None)
    if found is None:
        return default
    try:
        return int(os.environ[found])
    except ValueError:
        raise ValueError(f"environment variable {found} is {os.environ[found]!r}: it must be an integer") from None


def flag(name: str) -> bool:
    """Whether the environment variable `name` says yes."""
    return os.environ.get(name, "").lower() in ("1", "true", "yes", "y", "on", "t")
