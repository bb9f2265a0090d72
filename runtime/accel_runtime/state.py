"""`PartialState`, `AcceleratorState` and `GradientState`, by Accelerate's names, over one `World`.

All instances of each class share their attributes, so any part of a script can make one and read what
`Accelerator` has set up. Inside this package the `World` is passed on instead.
"""

from __future__ import annotations

import weakref
from enum import Enum
from typing import Any

from . import world as worlds
from .kwargs import GradientAccumulationPlugin, InitProcessGroupKwargs, check_precision, default_precision
from .process import ProcessControl
from .world import World


class DistributedType(str, Enum):
    """How the processes work together; "NO" is one process."""

    NO = "NO"
    MULTI_CPU = "MULTI_CPU"
    MULTI_GPU = "MULTI_GPU"
    MULTI_NPU = "MULTI_NPU"
    MULTI_MLU = "MULTI_MLU"
    MULTI_SDAA = "MULTI_SDAA"
    MULTI_MUSA = "MULTI_MUSA"
    MULTI_XPU = "MULTI_XPU"
    MULTI_HPU = "MULTI_HPU"
    MULTI_NEURON = "MULTI_NEURON"
    DEEPSPEED = "DEEPSPEED"
    FSDP = "FSDP"
    XLA = "XLA"
    MEGATRON_LM = "MEGATRON_LM"

    @staticmethod
    def of(world: World) -> DistributedType:
        """The type of plain data parallelism in `world`."""
        if world.device.type == "xla":
            return DistributedType.XLA
        if world.size == 1:
            return DistributedType.NO
        kind = "GPU" if world.device.type == "cuda" else world.device.type.upper()
        return DistributedType(f"MULTI_{kind}")


class _Shared:
    """Attributes are shared by all instances of the class; a reset leaves them without."""

    _shared_state: dict[str, Any]
    _known: tuple[str, ...] = ()

    def __init_subclass__(cls) -> None:
        cls._shared_state = {}

    @property
    def initialized(self) -> bool:
        """Whether the shared attributes have been set up."""
        return bool(self._shared_state)

    def __getattr__(self, name: str) -> Any:
        own = type(self).__name__
        if name in self._known:
            raise AttributeError(
                f"`{own}` object has no attribute `{name}`. This happens if `{own}._reset_state()` was called and "
                "no `Accelerator` or `PartialState` was made since."
            )
        raise AttributeError(f"'{own}' object has no attribute '{name}'")


class PartialState(_Shared, ProcessControl):
    """Where this process stands among the others, and control of single processes; needs no `Accelerator`.

    Args:
        cpu: train on the CPU even where there is an accelerator.
        **kwargs: `backend`, `init_method` and `timeout` for `torch.distributed.init_process_group`.
    """

    _known = ("world", "backend", "debug", "device", "distributed_type", "local_process_index", "num_processes", "process_index")

    def __init__(self, cpu: bool = False, **kwargs: Any):
        self.__dict__ = self._shared_state
        if not self.initialized:
            known = {name: kwargs[name] for name in ("backend", "init_method", "timeout") if name in kwargs}
            self.world = World.from_environment(cpu, InitProcessGroupKwargs(**known) if known else None)
            self.distributed_type = DistributedType.of(self.world)
            self.backend = self.world.backend
            self.debug = worlds.flag("ACCELERATE_DEBUG_MODE")
            self.fork_launched = worlds.flag("FORK_LAUNCHED")
        elif cpu:
            World.from_environment(cpu)  # an error if this process trains on something else

    def __repr__(self) -> str:
        backend = f"  Backend: {self.backend}" if self.backend else ""
        return (
            f"Distributed environment: {self.distributed_type.value}{backend}\nNum processes: {self.num_processes}\n"
            f"Process index: {self.process_index}\nLocal process index: {self.local_process_index}\nDevice: {self.device}\n"
        )

    @property
    def default_device(self) -> Any:
        """The kind of device that this machine would train on."""
        return self.device

    def destroy_process_group(self, group: Any = None) -> None:
        """Leave the process group `group`, by default all of them."""
        import torch.distributed as dist

        if dist.is_available() and dist.is_initialized():
            dist.destroy_process_group(group)

    @staticmethod
    def _reset_state() -> None:
        PartialState._shared_state.clear()
        worlds.forget()


class AcceleratorState(_Shared, ProcessControl):
    """`PartialState` and what `Accelerator` was told: the mixed precision.

    Raises:
        ValueError: it was set up before with another precision.
    """

    _known = (*PartialState._known, "mixed_precision", "dynamo_plugin", "deepspeed_plugin", "fsdp_plugin")

    def __init__(self, mixed_precision: str | None = None, cpu: bool = False, _from_accelerator: bool = False, **kwargs: Any):
        self.__dict__ = self._shared_state
        partial = PartialState(cpu, **kwargs)
        if self.initialized:
            _check_same_precision(self._mixed_precision, mixed_precision)
            return
        self._mixed_precision = default_precision() if mixed_precision is None else check_precision(mixed_precision)
        self.world, self.distributed_type, self.backend = partial.world, partial.distributed_type, partial.backend
        self.fsdp_plugin = self.deepspeed_plugin = self.megatron_lm_plugin = self.dynamo_plugin = None

    @property
    def mixed_precision(self) -> str:
        """One of "no", "fp16", "bf16", "fp8"."""
        return self._mixed_precision

    @property
    def deepspeed_plugins(self) -> dict[str, Any] | None:
        """All DeepSpeed plugins by name, where `Accelerator` was given several."""
        return self.__dict__.get("_deepspeed_plugins")

    def get_deepspeed_plugin(self, name: str) -> Any:
        """The DeepSpeed plugin of this name."""
        known = self.deepspeed_plugins or {}
        if name not in known:
            raise ValueError(f"there is no DeepSpeed plugin {name!r}: deepspeed_plugins has {', '.join(map(repr, known)) or 'none'}")
        return known[name]

    def select_deepspeed_plugin(self, name: str) -> None:
        """Let what is prepared from here on be trained by the DeepSpeed plugin of this name."""
        self.deepspeed_plugin = self.get_deepspeed_plugin(name)
        for plugin in (self.deepspeed_plugins or {}).values():
            plugin.selected = plugin is self.deepspeed_plugin

    @property
    def is_fsdp2(self) -> bool:
        """Whether the model's state is sharded by `fully_shard`."""
        return self.distributed_type is DistributedType.FSDP

    def __repr__(self) -> str:
        return f"{PartialState()!r}Mixed precision type: {self.mixed_precision}\n"

    def destroy_process_group(self, group: Any = None) -> None:
        """Leave the process group `group`, by default all of them."""
        PartialState().destroy_process_group(group)

    @staticmethod
    def _reset_state(reset_partial_state: bool = False) -> None:
        AcceleratorState._shared_state.clear()
        if reset_partial_state:
            PartialState._reset_state()


class GradientState(_Shared):
    """Whether gradients are synchronized at present, and which prepared data loaders are being iterated over.

    Attributes:
        sync_gradients: whether the present micro-batch ends an accumulation window.
        dataloader_references: the loaders being iterated over, outermost first, after a leading None.
        active_dataloader: the innermost of them, or None.
    """

    _known = ("sync_gradients", "plugin_kwargs")

    def __init__(self, gradient_accumulation_plugin: GradientAccumulationPlugin | None = None):
        self.__dict__ = self._shared_state
        if not self.initialized:
            self.sync_gradients = True
            self._references: list[weakref.ref[Any]] = []
            self.plugin_kwargs: dict[str, Any] = {}
        if gradient_accumulation_plugin is not None:
            self.plugin_kwargs = gradient_accumulation_plugin.to_kwargs()

    @property
    def num_steps(self) -> int:
        """Micro-batches per optimizer step."""
        return self.plugin_kwargs.get("num_steps", 1)

    @property
    def adjust_scheduler(self) -> bool:
        """Whether schedulers tick for skipped optimizer steps too."""
        return self.plugin_kwargs.get("adjust_scheduler", False)

    @property
    def sync_with_dataloader(self) -> bool:
        """Whether an accumulation window ends with the loader."""
        return self.plugin_kwargs.get("sync_with_dataloader", True)

    @property
    def active_dataloader(self) -> Any:
        """The innermost loader being iterated over, or None."""
        return self._references[-1]() if self._references else None

    @property
    def dataloader_references(self) -> list[Any]:
        """The loaders being iterated over, outermost first, after a leading None."""
        return [None, *(reference() for reference in self._references)]

    @property
    def in_dataloader(self) -> bool:
        """Whether a prepared loader is being iterated over."""
        return self.active_dataloader is not None

    @property
    def end_of_dataloader(self) -> bool:
        """Whether the active loader has yielded its last batch."""
        active = self.active_dataloader
        return active is not None and active.end_of_dataloader

    @property
    def remainder(self) -> int:
        """Samples of the active loader's last global batch that are no repetitions; -1 if unknown or outside a loader."""
        active = self.active_dataloader
        return -1 if active is None else active.remainder

    @property
    def is_xla_gradients_synced(self) -> bool:
        """Gradients are reduced with the backward pass: always."""
        return True

    def _set_sync_gradients(self, sync_gradients: bool) -> None:
        self.sync_gradients = sync_gradients

    def _add_dataloader(self, loader: Any) -> None:
        self._references.append(weakref.ref(loader, self._drop))

    def _remove_dataloader(self, loader: Any) -> None:
        self._references = [reference for reference in self._references if reference() is not loader]

    def _drop(self, reference: weakref.ref[Any]) -> None:
        if "_references" in self._shared_state:
            self._references = [kept for kept in self._references if kept is not reference]

    def __repr__(self) -> str:
        return (
            f"Sync Gradients: {self.sync_gradients}\nAt end of current dataloader: {self.end_of_dataloader}\n"
            f"Extra samples added: {self.remainder}\nGradient accumulation plugin: {self.plugin_kwargs}\n"
        )

    @staticmethod
    def _reset_state() -> None:
        GradientState._shared_state.clear()


def is_initialized() -> bool:
    """Whether `AcceleratorState` has been set up."""
    return bool(AcceleratorState._shared_state)


def forget() -> None:
    """Forget all states and the world: for a forked process, which begins with its parent's."""
    AcceleratorState._reset_state(True)
    GradientState._reset_state()


def _check_same_precision(known: str, asked: str | None) -> None:
    if asked is not None and asked != known:
        raise ValueError(
            f"mixed_precision={asked!r} was given, but this process was set up with {known!r}: "
            "give it where the first Accelerator is made"
        )
