"""`accelerate.utils.random`'s names."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from ..collectives import broadcast_object_list
from ..rng import set_seed
from ..world import World

__all__ = ["set_seed", "synchronize_rng_state", "synchronize_rng_states"]


def synchronize_rng_state(rng_type: str | None = None, generator: torch.Generator | None = None) -> None:
    """Give every process the main process's state of one stream: "torch", "cuda", or "generator" for `generator`.

    Raises:
        ValueError: another stream, or "generator" without one.
    """
    kind = getattr(rng_type, "value", rng_type)
    if kind not in ("torch", "cuda", "generator") or (kind == "generator" and generator is None):
        raise ValueError(f"rng_type is {kind!r}: it must be 'torch', 'cuda', or 'generator' together with one")
    world = World.from_environment()
    if kind == "generator" and generator is not None:
        generator.set_state(broadcast_object_list(world, [generator.get_state()])[0])
    elif kind == "torch":
        torch.set_rng_state(broadcast_object_list(world, [torch.get_rng_state()])[0])
    else:
        torch.cuda.set_rng_state(broadcast_object_list(world, [torch.cuda.get_rng_state()])[0])


def synchronize_rng_states(rng_types: Iterable[str], generator: torch.Generator | None = None) -> None:
    """`synchronize_rng_state` for each of `rng_types`."""
    for rng_type in rng_types:
        synchronize_rng_state(rng_type, generator)
