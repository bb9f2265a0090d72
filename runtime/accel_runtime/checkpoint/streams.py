"""The random streams of a process: Python's, NumPy's, torch's on the host and on the device."""

from __future__ import annotations

from typing import Any

import torch

from .. import rng, xla
from ..world import World


def take(world: World) -> dict[str, Any]:
    """The states of all streams of this process."""
    return {
        "host": rng.take_states()[:3],
        "device": _device_module(world).get_rng_state() if world.device.type != "cpu" else None,
        "shared": [generator.get_state() for generator, _ in rng.shared_device_generators()],
    }


def put(world: World, states: dict[str, Any]) -> None:
    """Set the streams."""
    rng.put_states((*states["host"], []))
    if states["device"] is not None and world.device.type != "cpu":
        _device_module(world).set_rng_state(states["device"].clone())
    if states["shared"]:
        rng.shared_device_generator(world, world.device)
    for (generator, _), state in zip(rng.shared_device_generators(), states["shared"], strict=False):
        generator.set_state(state.clone())


def _device_module(world: World) -> Any:
    return xla.Stream if world.device.type == "xla" else torch.get_device_module(world.device)
