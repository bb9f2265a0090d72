"""`torch.compile` of prepared models, in place: a compiled model is the same object, with the same keys and attributes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from torch import nn

from .kwargs import KwargsHandler

_PREFIX = "ACCELERATE_DYNAMO_"


@dataclass
class TorchDynamoPlugin(KwargsHandler):
    """Settings for `torch.compile`; those that are None are read from `ACCELERATE_DYNAMO_` and their names in capitals.

    Attributes:
        backend: a backend of torch.compile, "no" for none.
        mode: "default", "reduce-overhead" or "max-autotune".
        fullgraph: an error instead of a graph break (`ACCELERATE_DYNAMO_USE_FULLGRAPH`).
        dynamic: graphs for shapes that change (`ACCELERATE_DYNAMO_USE_DYNAMIC`).
        options: for the backend.
        disable: do nothing, for a look without it.
        use_regional_compilation: compile each of the blocks that repeat instead of the whole model: much sooner ready.
    """

    backend: Any = None
    mode: str | None = None
    fullgraph: bool | None = None
    dynamic: bool | None = None
    options: Any = None
    disable: bool = False
    use_regional_compilation: bool | None = None

    def __post_init__(self) -> None:
        from .world import flag

        chosen = os.environ.get(f"{_PREFIX}BACKEND", "no") if self.backend is None else self.backend
        self.backend = str(getattr(chosen, "value", chosen)).lower()
        self.mode = self.mode or os.environ.get(f"{_PREFIX}MODE") or "default"
        if self.fullgraph is None:
            self.fullgraph = flag(f"{_PREFIX}USE_FULLGRAPH")
        if self.dynamic is None and f"{_PREFIX}USE_DYNAMIC" in os.environ:
            self.dynamic = flag(f"{_PREFIX}USE_DYNAMIC")
        if self.use_regional_compilation is None:
            self.use_regional_compilation = flag(f"{_PREFIX}USE_REGIONAL_COMPILATION")

    @property
    def compiles(self) -> bool:
        """Whether there is something to do."""
        return self.backend != "no" and not self.disable

    def to_kwargs(self) -> dict[str, Any]:
        """The arguments of `torch.compile` that differ from its defaults."""
        given = {name: value for name, value in vars(self).items() if name != "use_regional_compilation"}
        plain = {
            "mode": "default",
            "fullgraph": False,
            "dynamic": None,
            "options": None,
            "disable": False,
            "backend": "no",
        }
        return {name: value for name, value in given.items() if value != plain[name]}


def compilation(plugin: TorchDynamoPlugin | None, backend: str | None) -> TorchDynamoPlugin:
    """The settings that `Accelerator` was given, as a plugin or by the name of a backend.

    Raises:
        ValueError: both were given.
    """
    if plugin is not None and backend is not None:
        raise ValueError("dynamo_plugin and dynamo_backend are both given: the plugin has the backend")
    return plugin or TorchDynamoPlugin(backend=backend)


def compile_model(model: nn.Module, plugin: TorchDynamoPlugin) -> None:
    """Let `model` compile at its first call, as `plugin` says."""
    if not plugin.compiles or is_compiled(model):
        return
    if plugin.use_regional_compilation:
        compile_regions(model, **plugin.to_kwargs())
    else:
        model.compile(**plugin.to_kwargs())


def compile_regions(module: nn.Module, **compile_kwargs: Any) -> nn.Module:
    """Compile each block that repeats in `module`, in place; the whole module where none does. Returns `module`."""
    from .strategies.units import repeated_blocks

    for block in repeated_blocks(module) or [module]:
        block.compile(**compile_kwargs)
    return module


def is_compiled(module: nn.Module) -> bool:
    """Whether the module, or a block of it, is compiled."""
    return any(part._compiled_call_impl is not None or hasattr(part, "_orig_mod") for part in module.modules())
