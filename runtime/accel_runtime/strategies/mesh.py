"""How the processes are arranged."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..world import World


def arrange(world: World, replicas: int, shards: int, together: int = 1) -> Any:
    """A mesh of all processes with the dimensions "dp_replicate", "dp_shard" and "tp"; first and last only above 1.

    Args:
        replicas: copies of the weights.
        shards: processes, or groups of `together` processes, that share one copy.
        together: processes that compute each layer together.

    Raises:
        ValueError: the sizes do not multiply to the number of processes.
    """
    from torch.distributed.device_mesh import init_device_mesh

    if replicas * shards * together != world.size:
        raise ValueError(
            f"{replicas} copies of the weights, each over {shards} x {together} processes, need {replicas * shards * together} processes, and "
            f"there are {world.size}: let the sizes multiply to their number"
        )
    sizes = {"dp_replicate": replicas, "dp_shard": shards, "tp": together}
    kept = {name: size for name, size in sizes.items() if size > 1 or name == "dp_shard"}
    return init_device_mesh(world.device.type, tuple(kept.values()), mesh_dim_names=tuple(kept))


def data_part(mesh: Any) -> Any:
    """The mesh over which batches are shared out and weights sharded."""
    names = tuple(name for name in mesh.mesh_dim_names if name != "tp")
    return mesh[names] if len(names) > 1 else mesh[names[0]]


def data_world(world: World, mesh: Any) -> World:
    """The processes among which batches are shared out, seen from this one."""
    return _seen_from_here(world, data_part(mesh))


def share_sequences(world: World, parts: int, together: int) -> tuple[World, World, Any]:
    """The processes among which batches are shared out; those and the ones that share sequences; the group of the latter here.

    Args:
        parts: processes, or groups of `together` processes, that share each sequence.
        together: processes that compute each layer together.
    """
    from torch.distributed.device_mesh import init_device_mesh

    sizes = (world.size // parts // together, parts, together)
    mesh = init_device_mesh(world.device.type, sizes, mesh_dim_names=("dp", "cp", "tp"))
    losses = world if together == 1 else _seen_from_here(world, mesh["dp", "cp"])
    return _seen_from_here(world, mesh["dp"]), losses, mesh["cp"].get_group()


def _seen_from_here(world: World, part: Any) -> World:
    group = part._flatten("_".join(part.mesh_dim_names)).get_group() if part.ndim > 1 else part.get_group()
    rank = 0
    for dim in range(part.ndim):
        rank = rank * part.size(dim) + part.get_local_rank(dim)
    return dataclasses.replace(world, rank=rank, size=part.size(), group=group, whole=world)
