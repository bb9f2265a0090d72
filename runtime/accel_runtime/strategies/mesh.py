"""How the processes are arranged."""

from __future__ import annotations

from typing import Any

from ..world import World


def data_mesh(world: World, replicas: int, shards: int) -> Any:
    """A mesh of all processes: `shards` processes share one copy of the weights, `replicas` such groups have the same.

    With one replica the mesh has one dimension.

    Raises:
        ValueError: `replicas * shards` is not the number of processes.
    """
    from torch.distributed.device_mesh import init_device_mesh

    if replicas * shards != world.size:
        raise ValueError(
            f"{replicas} replicas of weights over {shards} processes each need {replicas * shards} processes, and there are {world.size}: "
            "let the sizes multiply to the number of processes"
        )
    if replicas == 1:
        return init_device_mesh(world.device.type, (shards,), mesh_dim_names=("dp_shard",))
    return init_device_mesh(world.device.type, (replicas, shards), mesh_dim_names=("dp_replicate", "dp_shard"))
