"""Random streams: seeding them, and keeping those that steer the program equal on all processes.

| stream | exact mode, several processes |
| --- | --- |
| shuffling, `draw`, Python and NumPy in the main process | shared: process 0's state goes to all when a loader starts |
| a device's own generator (dropout on an accelerator) | differs per process; `draw` there uses a shared generator of its own |
| workers of map-style loaders (augmentation) | differs per process |
| augmentation without workers | shared, since every process reads whole batches (`data.reading`) |
| workers of iterable data sets | shared, since every process reads the same stream |

One process never touches a stream.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from typing import Any

import torch

from . import fingerprints, xla
from .collectives import broadcast_object_list
from .world import World

_PROCESS_STRIDE = 1_000_003
_shared_device_generators: dict[str, tuple[torch.Generator, int]] = {}


def set_seed(seed: int, device_specific: bool = False, deterministic: bool = False) -> None:
    """Seed Python's, NumPy's (where installed) and torch's streams on every device.

    `device_specific` adds the process index to the seed; `deterministic` also asks torch for deterministic algorithms.
    """
    if device_specific:
        from .state import PartialState

        seed += PartialState().process_index
    random.seed(seed)
    try:
        import numpy
    except ImportError:
        pass
    else:
        numpy.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    xla.seed(seed)
    for generator, rank in _shared_device_generators.values():
        _separate(generator, seed, rank)
    if deterministic:
        torch.use_deterministic_algorithms(True)


def share_streams(world: World, generators: Sequence[torch.Generator] = ()) -> None:
    """Give every process the main process's Python, NumPy and torch CPU states, and those of `generators`."""
    world = world.together
    states: list[Any] = [take_states(generators) if world.rank == 0 else None]
    broadcast_object_list(world, states, 0)
    if world.rank != 0:
        put_states(states[0], generators)


def shared_device_generator(world: World, device: torch.device) -> torch.Generator | None:
    """The generator which all processes share on `device`; None where they share the default one (the CPU)."""
    if world.size == 1 or device.type != "cuda":
        return None
    entry = _shared_device_generators.get(str(device))
    if entry is None:
        entry = (torch.Generator(device), world.rank)
        _separate(entry[0], torch.initial_seed(), world.rank)
        _shared_device_generators[str(device)] = entry
    return entry[0]


def _separate(shared: torch.Generator, seed: int, rank: int) -> None:
    shared.manual_seed(seed)
    if rank > 0:
        torch.cuda.manual_seed((seed + rank * _PROCESS_STRIDE) % 2**63)


def take_states(generators: Sequence[torch.Generator] = ()) -> tuple[Any, ...]:
    """The states of this process's Python, NumPy and torch CPU streams and of `generators`, for `put_states`."""
    numpy = sys.modules.get("numpy")
    return (
        random.getstate(),
        None if numpy is None else numpy.random.get_state(),
        torch.get_rng_state(),
        [generator.get_state() for generator in generators],
    )


def put_states(states: tuple[Any, ...], generators: Sequence[torch.Generator] = ()) -> None:
    """Set the streams to `states`."""
    python, numpy_state, torch_state, generator_states = states
    random.setstate(python)
    if numpy_state is not None:
        import numpy

        numpy.random.set_state(numpy_state)
        fingerprints.forget()
    torch.set_rng_state(torch_state)
    for generator, state in zip(generators, generator_states, strict=True):
        generator.set_state(state)


def shared_device_generators() -> list[tuple[torch.Generator, int]]:
    """The generators made by `shared_device_generator`, with the rank of this process."""
    return list(_shared_device_generators.values())
