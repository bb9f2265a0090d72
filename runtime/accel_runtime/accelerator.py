"""`Accelerator`: the names of Hugging Face's Accelerate, each handed on to the module that does the work."""

from __future__ import annotations

import functools
import os
import weakref
from typing import Any

from . import collectives
from .accumulation import Accumulation, asked_steps, plugin_for
from .batches import Tracker
from .checkpoint.control import Checkpointing
from .combining import Combining
from .compiling import TorchDynamoPlugin, compilation
from .deepspeed_plugin import DeepSpeedPlugin, several_plugins
from .fp8_kwargs import AORecipeKwargs
from .joining import Joining
from .kwargs import (
    AutocastKwargs,
    DataLoaderConfiguration,
    DistributedDataParallelKwargs,
    GradientAccumulationPlugin,
    GradScalerKwargs,
    InitProcessGroupKwargs,
    ProjectConfiguration,
)
from .live import live_accelerator, set_live
from .megatron_plugin import MegatronLMPlugin
from .parallelism_config import ParallelismConfig
from .pipelining import Pipelining
from .plugins import FullyShardedDataParallelPlugin
from .precision import Precision
from .rng import share_streams
from .saving import Saving
from .spreading import spreading
from .state import AcceleratorState, DistributedType, GradientState
from .stepping import Stepping
from .strategies import Settings, create
from .tf32 import asked_tf32, set_tf32
from .tracking_control import TrackingControl
from .world import World


class Accelerator(Pipelining, Stepping, Joining, Combining, Saving, Checkpointing, TrackingControl):
    """Trains a script on any number of processes.

    Args:
        device_placement: move models and batches to this process's device.
        split_batches: exact mode: cut each batch of the original loader, so that N processes train as one would.
        mixed_precision: "no", "fp16", "bf16", or "fp8" (with torchao).
        gradient_accumulation_steps: micro-batches per optimizer step, for `accumulate`.
        cpu: train on the CPU even where there is an accelerator.
        dataloader_config: how loaders are shared out; its `split_batches` counts too.
        deepspeed_plugin: let DeepSpeed shard them: a plugin, a dict of its fields or of DeepSpeed's own settings, or the path of
            DeepSpeed's JSON file; or several plugins by name, of which `state.select_deepspeed_plugin` chooses.
        deepspeed_plugins: the same.
        fsdp_plugin: shard models over the processes.
        megatron_lm_plugin: how many processes share layers, by Megatron-LM's degrees.
        parallelism_config: how many processes share weights, layers and batches.
        dynamo_plugin: compile prepared models, in place.
        dynamo_backend: the same, with this backend of torch.compile.
        log_with: trackers, by name or as objects.
        project_dir: folder for logs and checkpoints.
        project_config: the same, in detail.
        gradient_accumulation_plugin: accumulation in detail, instead of `gradient_accumulation_steps`.
        step_scheduler_with_optimizer: whether schedulers tick once per optimizer step of every process (per-process mode).
        kwargs_handlers: settings for autocast, the gradient scaler, float8, the process group, gradient reduction.
        sync_batchnorm: in exact mode, take BatchNorm's training statistics over the global batch.
        tf32: multiply float32 matrices, and convolve, in tf32 where the device can; False: in float32 only. None leaves torch's settings.

    Raises:
        ValueError: settings that are unknown or contradict each other.
    """

    def __init__(
        self,
        device_placement: bool = True,
        split_batches: bool = False,
        mixed_precision: str | None = None,
        gradient_accumulation_steps: int = 1,
        cpu: bool = False,
        dataloader_config: DataLoaderConfiguration | None = None,
        deepspeed_plugin: DeepSpeedPlugin | dict[str, Any] | str | os.PathLike[str] | None = None,
        fsdp_plugin: FullyShardedDataParallelPlugin | None = None,
        *,
        megatron_lm_plugin: MegatronLMPlugin | None = None,
        rng_types: list[str] | None = None,
        log_with: Any = None,
        project_dir: str | os.PathLike[str] | None = None,
        project_config: ProjectConfiguration | None = None,
        gradient_accumulation_plugin: GradientAccumulationPlugin | None = None,
        step_scheduler_with_optimizer: bool = True,
        kwargs_handlers: list[Any] | None = None,
        dynamo_backend: str | None = None,
        dynamo_plugin: TorchDynamoPlugin | None = None,
        parallelism_config: ParallelismConfig | None = None,
        deepspeed_plugins: dict[str, DeepSpeedPlugin] | None = None,
        sync_batchnorm: bool = True,
        tf32: bool | None = None,
    ) -> None:
        handlers = _by_type(kwargs_handlers or [])
        self.project_configuration = project_config or ProjectConfiguration(project_dir=project_dir and os.fspath(project_dir))
        if project_config is not None and project_dir is not None:
            self.project_configuration.set_directories(os.fspath(project_dir))
        self.dataloader_config = dataloader_config or DataLoaderConfiguration()
        self.exact = split_batches or self.dataloader_config.split_batches
        self.device_placement = device_placement
        self.step_scheduler_with_optimizer = step_scheduler_with_optimizer
        self.sync_batchnorm = sync_batchnorm
        self.rng_types = rng_types
        self.log_with = _trackers(log_with, self.project_configuration.logging_dir)
        self.trackers: list[Any] = []
        self.kwargs_handlers = handlers
        init = handlers.get(InitProcessGroupKwargs)
        self.state = AcceleratorState(mixed_precision, cpu, _from_accelerator=True, **(init.to_kwargs() if init else {}))
        several = several_plugins(deepspeed_plugin, deepspeed_plugins)
        deepspeed_plugin = next(iter(several.values())) if several else deepspeed_plugin
        ways = spreading(self.state.num_processes, deepspeed_plugin, fsdp_plugin, megatron_lm_plugin, parallelism_config)
        steps = asked_steps(gradient_accumulation_steps, ways.deepspeed)
        self.gradient_state = GradientState(plugin_for(gradient_accumulation_plugin, steps))
        self.precision = Precision(
            self.state.mixed_precision,
            self.state.device.type,
            _options(handlers, GradScalerKwargs),
            _options(handlers, AutocastKwargs),
            announce=self.state.is_main_process,
        )
        set_tf32(asked_tf32(tf32), self.state.device, self.state.is_main_process)
        self.parallelism_config = ways.parallelism
        self.state.fsdp_plugin, self.state.deepspeed_plugin, self.state.megatron_lm_plugin = ways.fsdp, ways.deepspeed, ways.megatron
        self.state._deepspeed_plugins = several or None
        if several:
            self.state.select_deepspeed_plugin(next(iter(several)))
        self.state.dynamo_plugin = compilation(dynamo_plugin, dynamo_backend)
        self.strategy = create(self.state.world, self._settings())
        self.state.distributed_type = DistributedType(self.strategy.name or self.state.distributed_type)
        self.data_world, self.loss_world = self.strategy.data_world, self.strategy.loss_world
        if self.strategy.scales_losses:
            self.precision.scaling = None
        elif self.precision.scaling is not None:
            self.strategy.adapt_scaler(self.precision.scaling)
        self.tracker = Tracker(functools.partial(collectives.any_process, self.data_world))
        self.float8 = self._float8() if self.mixed_precision == "fp8" else None
        self.accumulation = Accumulation(self.tracker, self.gradient_state, self.exact)
        self._models = []
        self._coming = []
        self._optimizers = {}
        self._schedulers = []
        self._dataloaders = []
        self._triggered = False
        self._begin_checkpointing()
        if self.exact and self.num_processes > 1:
            share_streams(self.world)  # a script without a seed draws the same from here on
        set_live(self)

    def _settings(self) -> Settings:
        samples = weakref.WeakMethod(self._samples_of_this_process)  # the strategy must not keep the Accelerator
        state, shared = self.gradient_state, self.state
        return Settings(
            gradients=self.kwargs_handlers.get(DistributedDataParallelKwargs) or DistributedDataParallelKwargs(),
            fsdp=self.state.fsdp_plugin,
            parallelism=self.parallelism_config,
            low_precision=None if self.exact else self.precision.dtype,
            deepspeed=self.state.deepspeed_plugin,
            selected=lambda: shared.deepspeed_plugin,
            precision=self.mixed_precision,
            exact=self.exact,
            steps=lambda: state.num_steps,
            micro_batch=lambda: samples()(),  # type: ignore[misc]
        )

    def _float8(self) -> Any:
        from .fp8 import Float8

        session = (self.data_world, self.tracker) if self.exact and self.data_world.size > 1 else None
        recipe = self.kwargs_handlers.get(AORecipeKwargs) or AORecipeKwargs()
        return Float8(recipe, self.device, session, self.state.is_main_process)

    @property
    def world(self) -> World:  # type: ignore[override]
        """All processes, as the shared state knows them."""
        return self.state.world

    @property
    def distributed_type(self) -> DistributedType:
        return self.state.distributed_type

    @property
    def mixed_precision(self) -> str:
        return self.state.mixed_precision

    @property
    def native_amp(self) -> bool:
        return self.precision.dtype is not None

    @property
    def split_batches(self) -> bool:
        return self.exact

    @property
    def project_dir(self) -> str | None:
        return self.project_configuration.project_dir

    @property
    def logging_dir(self) -> str | None:
        return self.project_configuration.logging_dir

    def __reduce__(self) -> Any:
        """Pickled, for a process that is started: there it is that process's own."""
        return _at_hand, (self.exact, self.mixed_precision)

    def __deepcopy__(self, memo: dict[int, Any]) -> Accelerator:
        return self


def _at_hand(exact: bool, mixed_precision: str) -> Accelerator:
    return live_accelerator() or Accelerator(split_batches=exact, mixed_precision=mixed_precision)


def _by_type(handlers: list[Any]) -> dict[type, Any]:
    found: dict[type, Any] = {}
    for handler in handlers:
        if type(handler) in found:
            raise ValueError(f"kwargs_handlers has two {type(handler).__name__}: give one of each kind")
        found[type(handler)] = handler
    return found


def _options(handlers: dict[type, Any], kind: type) -> dict[str, Any]:
    return handlers[kind].to_kwargs() if kind in handlers else {}


def _trackers(log_with: Any, logging_dir: str | None) -> list[Any]:
    """What `log_with` asks for; a wrong name fails here, not when training begins."""
    if log_with is None:
        return []
    from .tracking import filter_trackers

    return filter_trackers(log_with, logging_dir)
