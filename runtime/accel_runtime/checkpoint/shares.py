"""Which process writes which tensors, and the tensors of which a process holds a part only."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ..world import World

_WORTH_SHARING = 2**25
"""Bytes from which on a component is written by all processes."""


@dataclass(frozen=True)
class Piece:
    """A block of the tensor `name`, which is `shape` as a whole: `tensor` begins at `offset`."""

    name: str
    tensor: torch.Tensor
    offset: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def key(self) -> str:
        """Its name in a file."""
        return self.name if tuple(self.tensor.shape) == self.shape else f"{self.name}@{','.join(map(str, self.offset))}"


def shares(world: World, tensors: Mapping[str, torch.Tensor], replicated: Collection[str]) -> list[Piece]:
    """The pieces that this process writes.

    Of sharded tensors (`DTensor`) these are its own blocks. Of the rest, those named in `replicated`, which all processes have
    alike, are shared out by size; the main process writes what remains.
    """
    owners = _owners(world, tensors, replicated)
    pieces = []
    for name, tensor in tensors.items():
        if hasattr(tensor, "placements"):
            pieces += _own_block(name, tensor)
        elif owners.get(name, 0) == world.rank:
            pieces.append(Piece(name, tensor, (0,) * tensor.ndim, tuple(tensor.shape)))
    return pieces


def writers(world: World, tensors: Mapping[str, torch.Tensor], replicated: Collection[str]) -> dict[str, int] | None:
    """Name -> rank of its only writer; None where a tensor is in blocks, or the main process writes everything."""
    owners = _owners(world, tensors, replicated)
    if any(hasattr(tensor, "placements") for tensor in tensors.values()) or not any(owners.values()):
        return None
    return {name: owners.get(name, 0) for name in tensors}


def in_parts(world: World, tensors: Mapping[str, torch.Tensor], replicated: Collection[str]) -> bool:
    """Whether more than the main process writes."""
    return any(hasattr(tensor, "placements") for tensor in tensors.values()) or any(
        _owners(world, tensors, replicated).values()
    )


def _owners(world: World, tensors: Mapping[str, torch.Tensor], replicated: Collection[str]) -> dict[str, int]:
    plain = {
        name: t.numel() * t.element_size()
        for name, t in tensors.items()
        if not hasattr(t, "placements") and name in replicated
    }
    if world.size == 1 or sum(plain.values()) < _WORTH_SHARING:
        return {}
    loads = [0] * world.size
    owners = {}
    for name in sorted(plain, key=lambda name: (-plain[name], name)):
        owners[name] = min(range(world.size), key=lambda rank: (loads[rank], -rank))
        loads[owners[name]] += plain[name]
    return owners


def _own_block(name: str, tensor: Any) -> list[Piece]:
    """This process's block; of equal blocks that several processes hold, the first one's."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    mesh, placements = tensor.device_mesh, tensor.placements
    coordinate = mesh.get_coordinate()
    if 0 not in mesh.mesh:  # one of several groups that hold the same, each on a mesh of its own
        return []
    if coordinate is None or any(at and isinstance(p, Replicate) for at, p in zip(coordinate, placements, strict=True)):
        return []
    _, offset = compute_local_shape_and_global_offset(tensor.shape, mesh, placements)
    local = tensor.to_local()
    return [Piece(name, local, tuple(offset), tuple(tensor.shape))] if local.numel() else []


def as_file(pieces: list[Piece]) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """The tensors of a file, and its metadata, from which `stored` finds the blocks."""
    blocks = {p.key: {"name": p.name, "offset": p.offset, "shape": p.shape} for p in pieces if p.key != p.name}
    return {p.key: p.tensor for p in pieces}, {"blocks": json.dumps(blocks)} if blocks else {}
