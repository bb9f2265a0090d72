"""Tables: what tells a process its place among the others. A new launcher's variable is one more entry here."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(str, Enum):
    """What a number or condition says about the processes."""

    RANK = "rank"
    LOCAL_RANK = "local rank"
    WORLD = "world size"
    LOCAL_WORLD = "processes per node"
    FLAG = "distributed"
    """True where there are several processes."""
    MAIN = "main process"
    """True on the first process only."""
    AVAILABLE = "available"
    """Whether torch was built with torch.distributed."""


@dataclass(frozen=True)
class Meaning:
    """What an expression says; a condition may say the opposite."""

    kind: Kind
    negated: bool = False

    def opposite(self) -> Meaning:
        return Meaning(self.kind, not self.negated)


CALLS = {
    "torch.distributed.get_rank": Kind.RANK,
    "torch.distributed.get_world_size": Kind.WORLD,
    "torch.distributed.get_node_local_rank": Kind.LOCAL_RANK,
    "torch.distributed.is_initialized": Kind.FLAG,
    "torch.distributed.is_torchelastic_launched": Kind.FLAG,
    "torch.distributed.is_available": Kind.AVAILABLE,
    "torch.cuda.device_count": Kind.LOCAL_WORLD,
    "torch.accelerator.device_count": Kind.LOCAL_WORLD,
}
VARIABLES = {
    "RANK": Kind.RANK, "LOCAL_RANK": Kind.LOCAL_RANK, "WORLD_SIZE": Kind.WORLD, "LOCAL_WORLD_SIZE": Kind.LOCAL_WORLD,
    "SLURM_PROCID": Kind.RANK, "SLURM_LOCALID": Kind.LOCAL_RANK, "SLURM_NTASKS": Kind.WORLD, "SLURM_NPROCS": Kind.WORLD,
    "OMPI_COMM_WORLD_RANK": Kind.RANK, "OMPI_COMM_WORLD_LOCAL_RANK": Kind.LOCAL_RANK, "OMPI_COMM_WORLD_SIZE": Kind.WORLD,
    "PMI_RANK": Kind.RANK, "PMI_SIZE": Kind.WORLD,
}  # fmt: skip
LAUNCHER_SETTINGS = {"MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "WORLD_SIZE", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"}
"""Variables which only the launcher has to set."""
LAUNCHER_ARGUMENTS = {"local_rank": Kind.LOCAL_RANK}
"""Arguments that a launcher passes to the script (torch.distributed.launch)."""
