"""`Accelerator`: the names of Hugging Face's Accelerate, each handed on to the module that does the work."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader

from . import batchnorm, collectives, global_values, scheduler
from .accumulation import Accumulation
from .batches import Tracker
from .data.order import seed_sampler
from .data.prepared import PreparedLoader
from .drawing import draw_rows
from .kwargs import (
    AutocastKwargs,
    DataLoaderConfiguration,
    DistributedDataParallelKwargs,
    GradientAccumulationPlugin,
    GradScalerKwargs,
    InitProcessGroupKwargs,
    ProjectConfiguration,
    default_accumulation_steps,
)
from .live import set_live
from .optimizer import OptimizerHooks, install, move_state
from .precision import Precision
from .process import ProcessControl
from .rng import share_streams
from .state import AcceleratorState, DistributedType, GradientState
from .strategies import create


class Accelerator(ProcessControl):
    """Trains a script on any number of processes.

    Args:
        device_placement: move models and batches to this process's device.
        split_batches: exact mode: cut each batch of the original loader, so that N processes train as one would.
        mixed_precision: "no", "fp16" or "bf16".
        gradient_accumulation_steps: micro-batches per optimizer step, for `accumulate`.
        cpu: train on the CPU even where there is an accelerator.
        dataloader_config: how loaders are shared out; its `split_batches` counts too.
        log_with: trackers, by name or as objects.
        project_dir: folder for logs and checkpoints.
        project_config: the same, in detail.
        gradient_accumulation_plugin: accumulation in detail, instead of `gradient_accumulation_steps`.
        step_scheduler_with_optimizer: whether schedulers tick once per optimizer step of every process (per-process mode).
        kwargs_handlers: settings for autocast, the gradient scaler, the process group, gradient reduction.
        sync_batchnorm: in exact mode, take BatchNorm's training statistics over the global batch.

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
        *,
        log_with: Any = None,
        project_dir: str | os.PathLike[str] | None = None,
        project_config: ProjectConfiguration | None = None,
        gradient_accumulation_plugin: GradientAccumulationPlugin | None = None,
        step_scheduler_with_optimizer: bool = True,
        kwargs_handlers: list[Any] | None = None,
        rng_types: list[str] | None = None,
        sync_batchnorm: bool = True,
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
        self.world = self.state.world
        self.gradient_state = GradientState(_plugin(gradient_accumulation_plugin, gradient_accumulation_steps))
        self.tracker = Tracker(functools.partial(collectives.any_process, self.world))
        self.accumulation = Accumulation(self.tracker, self.gradient_state, self.exact)
        self.strategy = create(self.world, handlers.get(DistributedDataParallelKwargs))
        self.precision = Precision(
            self.state.mixed_precision,
            self.world.device.type,
            _options(handlers, GradScalerKwargs),
            _options(handlers, AutocastKwargs),
            announce=self.world.is_main,
        )
        self._models: list[nn.Module] = []
        self._optimizers: dict[int, tuple[Optimizer, OptimizerHooks | None]] = {}
        self._schedulers: list[Any] = []
        self._dataloaders: list[Any] = []
        self._triggered = False
        if self.exact and self.world.size > 1:
            share_streams(self.world)  # a script without a seed draws the same from here on
        set_live(self)

    # Preparing

    def prepare(self, *objects: Any, device_placement: list[bool] | None = None) -> Any:
        """Make models, optimizers, loaders and schedulers ready for all processes; returned in the order given.

        Models, optimizers and schedulers stay the very same objects. Anything else is passed through. Twice is harmless.
        """
        placements = device_placement or [self.device_placement] * len(objects)
        if len(placements) != len(objects):
            raise ValueError(f"device_placement has {len(placements)} entries for {len(objects)} objects: give one for each")
        for kind in (nn.Module, Optimizer):
            for item, place in zip(objects, placements, strict=True):
                if isinstance(item, kind):
                    self._prepare_one(item, place)
        results = tuple(
            item if isinstance(item, (nn.Module, Optimizer)) else self._prepare_one(item, place)
            for item, place in zip(objects, placements, strict=True)
        )
        return results[0] if len(results) == 1 else results

    def prepare_model(self, model: nn.Module, device_placement: bool | None = None, evaluation_mode: bool = False) -> nn.Module:
        """Move `model` to the device and make it train on all processes, in place."""
        if any(known is model for known in self._models):
            return model
        if self.device_placement if device_placement is None else device_placement:
            model.to(self.device)
        if not evaluation_mode:
            self.strategy.prepare_model(model)
            if self.exact and self.sync_batchnorm and self.num_processes > 1:
                batchnorm.synchronize(model, self.world, self.tracker)
        if not self.exact:
            self.precision.wrap_forward(model)
        self._models.append(model)
        return model

    def prepare_optimizer(self, optimizer: Optimizer, device_placement: bool | None = None) -> Optimizer:
        """Make `optimizer` step on all processes, in place."""
        if id(optimizer) not in self._optimizers:
            move_state(optimizer)
            self.strategy.prepare_optimizer(optimizer)
            self._optimizers[id(optimizer)] = (optimizer, install(self, optimizer) if self._steps_differ else None)
        return optimizer

    def prepare_scheduler(self, scheduler_: Any) -> Any:
        """Let windows and processes decide when `scheduler_` ticks, in place."""
        if not any(known is scheduler_ for known in self._schedulers):
            scheduler.look_wrapped(scheduler_)
            if self._steps_differ:
                scheduler.install(self, scheduler_)
            self._schedulers.append(scheduler_)
        return scheduler_

    def prepare_data_loader(self, data_loader: Any, device_placement: bool | None = None, slice_fn_for_dispatch: Any = None) -> Any:
        """A loader that yields this process's part of the batches, on its device."""
        if any(known is data_loader for known in self._dataloaders):
            return data_loader
        place = self.device_placement if device_placement is None else device_placement
        config = self.dataloader_config
        if self.exact or self.num_processes == 1:
            if config.use_seedable_sampler and isinstance(data_loader, DataLoader):
                seed_sampler(self.world, data_loader, config.data_seed)
            prepared: Any = PreparedLoader(
                data_loader,
                self.world,
                self.tracker,
                place=place,
                non_blocking=config.non_blocking,
                collate=config.collate,
                dispatch=bool(config.dispatch_batches),
                look_ahead=self.accumulation.looks_ahead,
            )
        else:
            from .data.per_process import prepare_per_process

            prepared = prepare_per_process(
                self.world, data_loader, config, place, slice_fn_for_dispatch, self.tracker, self._share_buffers
            )
        self._dataloaders.append(prepared)
        return prepared

    def _share_buffers(self) -> None:
        """In per-process mode running statistics drift; each pass begins with the main process's."""
        settings = self.kwargs_handlers.get(DistributedDataParallelKwargs)
        if settings is None or settings.broadcast_buffers:
            for model in self._models:
                collectives.broadcast(self.world, list(model.buffers()))

    def _prepare_one(self, item: Any, place: bool) -> Any:
        if isinstance(item, nn.Module):
            return self.prepare_model(item, place)
        if isinstance(item, Optimizer):
            return self.prepare_optimizer(item, place)
        if isinstance(item, DataLoader):
            return self.prepare_data_loader(item, place)
        if isinstance(item, LRScheduler) or (hasattr(item, "step") and isinstance(getattr(item, "optimizer", None), Optimizer)):
            return self.prepare_scheduler(item)
        return item

    @property
    def _steps_differ(self) -> bool:
        """Whether `step` must do more than the plain one."""
        return self.num_processes > 1 or self.gradient_accumulation_steps > 1 or self.precision.scaling is not None

    # Training

    def backward(
        self, loss: torch.Tensor, reduction: str = "mean", weight: Any = None, sync: bool = True, **kwargs: Any
    ) -> None:
        """`loss.backward(**kwargs)`, weighted so that the averaged gradient is that of the global batch's loss.

        Args:
            loss: computed from this process's rows.
            reduction: how `loss` sums up its rows, "mean" or "sum".
            weight: what a mean divided by on this process, where that is not the number of samples
                (targets that are not ignored, tokens, the sum of class weights).
            sync: False leaves the gradients local, as under `no_sync`: for all but the last backward of a window of
                gradient accumulation by hand.
            **kwargs: for `torch.Tensor.backward`.
        """
        if not sync:
            with self.no_sync():
                return self.backward(loss, reduction, weight, **kwargs)
        if reduction not in ("mean", "sum"):
            raise ValueError(f"reduction is {reduction!r}: it must be 'mean' or 'sum'")
        factor = 1.0 if self.world.size == 1 else self._factor(loss, reduction, weight)
        divisor = self.accumulation.divisor
        if factor != 1.0 or divisor != 1:
            kwargs["gradient"] = _seed(loss, kwargs.get("gradient"), factor, divisor)
        if self.precision.scaling is not None:
            loss = self.precision.scaling.scale(loss)
        if factor == 0.0:
            self._backward_at_zero(loss, kwargs)
        else:
            loss.backward(**kwargs)
        self.accumulation.note_backward()
        if self.accumulation.rescale != 1.0:
            self._rescale_gradients(self.accumulation.rescale)
        if self.exact and self.precision.dtype is not None:
            self.precision.warn_if_unused()

    def _factor(self, loss: torch.Tensor, reduction: str, weight: Any) -> float:
        if reduction == "sum":
            return 0.0 if self.tracker.borrowed(loss) else float(self.world.size)
        counted = global_values.scale_of(self.world, self.tracker, loss, weight)
        if counted is None:
            return 1.0
        self.tracker.remember_backward(loss, counted)
        return counted.scale

    def _backward_at_zero(self, loss: torch.Tensor, kwargs: dict[str, Any]) -> None:
        self.tracker.at_zero = True
        try:
            with self.strategy.without_nan():
                loss.backward(**kwargs)
        finally:
            self.tracker.at_zero = False

    @torch.no_grad()
    def _rescale_gradients(self, factor: float) -> None:
        gradients = {id(p.grad): p.grad for o, _ in self._optimizers.values() for g in o.param_groups for p in g["params"] if p.grad is not None}
        for gradient in gradients.values():
            gradient.mul_(factor)

    @contextmanager
    def accumulate(self, *models: nn.Module) -> Iterator[None]:
        """One micro-batch: inside, optimizers and schedulers act only where a window of micro-batches ends."""
        with self.accumulation.micro_batch(self.strategy):
            yield

    def no_sync(self, model: nn.Module | None = None) -> AbstractContextManager[None]:
        """Inside, backwards leave gradients local; the next one outside averages what has accumulated."""
        return self.strategy.no_sync()

    def trigger_sync_in_backward(self, model: nn.Module | None = None) -> AbstractContextManager[None]:
        """Inside, backwards average gradients, even for losses that were computed within `no_sync`."""
        return self.strategy.sync()

    def autocast(self, autocast_handler: AutocastKwargs | None = None) -> AbstractContextManager[Any]:
        """The region whose operations run in the chosen precision."""
        return self.precision.autocast(autocast_handler.to_kwargs() if autocast_handler is not None else None)

    def clip_grad_norm_(self, parameters: Any, max_norm: float, norm_type: float = 2.0) -> torch.Tensor:
        """Scale gradients down to `max_norm` at the end of a window; always returns the norm before."""
        parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        if not self.accumulation.may_step():
            return self.strategy.clip_grad_norm(parameters, float("inf"), norm_type)
        self._unscale_owners(parameters)
        return self.strategy.clip_grad_norm(parameters, max_norm, norm_type)

    def clip_grad_value_(self, parameters: Any, clip_value: float) -> None:
        """Clamp gradients to `[-clip_value, clip_value]` at the end of a window."""
        parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        if self.accumulation.may_step():
            self._unscale_owners(parameters)
            nn.utils.clip_grad_value_(parameters, clip_value)

    def unscale_gradients(self, optimizer: Any = None) -> None:
        """Divide gradients by the scaler's factor, once per step; `optimizer` is one, several, or None for all."""
        wanted = None if optimizer is None else {id(o) for o in (optimizer if isinstance(optimizer, (list, tuple)) else [optimizer])}
        for key, (_, hooks) in self._optimizers.items():
            if hooks is not None and (wanted is None or key in wanted):
                hooks.unscale()

    def _unscale_owners(self, parameters: Iterable[torch.Tensor]) -> None:
        if self.precision.scaling is None:
            return
        given = {id(p) for p in parameters}
        for optimizer, hooks in self._optimizers.values():
            if hooks is not None and any(id(p) in given for group in optimizer.param_groups for p in group["params"]):
                hooks.unscale()

    @property
    def scaler(self) -> Any:
        """The gradient scaler of fp16 (a disabled one on a host without a GPU), else None."""
        return self.precision.scaler

    @property
    def sync_gradients(self) -> bool:
        """Whether the present micro-batch ends its window."""
        return self.gradient_state.sync_gradients

    @sync_gradients.setter
    def sync_gradients(self, value: bool) -> None:
        self.gradient_state._set_sync_gradients(value)

    @property
    def gradient_accumulation_steps(self) -> int:
        """Micro-batches per optimizer step."""
        return self.gradient_state.num_steps

    @gradient_accumulation_steps.setter
    def gradient_accumulation_steps(self, steps: int) -> None:
        self.gradient_state.plugin_kwargs.update(_plugin(None, steps).to_kwargs() or {"num_steps": 1})
        if self._steps_differ:
            self._install_late()

    def _install_late(self) -> None:
        for key, (optimizer, hooks) in list(self._optimizers.items()):
            if hooks is None:
                self._optimizers[key] = (optimizer, install(self, optimizer))
        for prepared in self._schedulers:
            scheduler.install(self, prepared)

    @property
    def adjust_scheduler(self) -> bool:
        return self.gradient_state.adjust_scheduler

    @property
    def optimizer_step_was_skipped(self) -> bool:
        """Whether the last step of some optimizer was skipped because gradients overflowed."""
        return any(hooks is not None and hooks.step_was_skipped for _, hooks in self._optimizers.values())

    # The whole from the parts

    def global_mean(self, value: Any, weight: Any = None) -> Any:
        """The mean over the global batch of `value`, a mean over this process's rows; detached. One scalar reduction."""
        return global_values.global_mean(self.world, self.tracker, value, weight)

    def global_sum(self, value: Any) -> Any:
        """The sum over the global batch of `value`, a sum over this process's rows; detached."""
        return global_values.global_sum(self.world, self.tracker, value)

    def global_len(self, value: Any) -> int:
        """The rows of which `value` (or a number of samples) is this process's part.

        Needs no communication for the tensors of the batch and for numbers; for others all processes have to ask.
        """
        return global_values.global_len(self.world, self.tracker, value)

    def draw(self, factory: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """`factory(*args, **kwargs)` for the global batch, and of it this process's rows; see `accel_runtime.draw`."""
        return draw_rows(self.world, self.tracker, factory, *args, **kwargs)

    def gather(self, tensor: Any) -> Any:
        """All processes' tensors, concatenated along dimension 0."""
        return collectives.gather(self.world, tensor)

    def gather_for_metrics(self, input_data: Any, use_gather_object: bool = False) -> Any:
        """The results for the global batch: its rows in the original order, each once."""
        from .metrics import gather_for_metrics

        return gather_for_metrics(self, input_data, use_gather_object)

    def reduce(self, tensor: Any, reduction: str = "sum", scale: float = 1.0) -> Any:
        """Sum or mean over processes."""
        return collectives.reduce(self.world, tensor, reduction, scale)

    def pad_across_processes(self, tensor: Any, dim: int = 0, pad_index: float = 0, pad_first: bool = False) -> Any:
        """Pad tensors to the longest of all processes along `dim`."""
        return collectives.pad_across_processes(self.world, tensor, dim, pad_index, pad_first)

    def set_trigger(self) -> None:
        """Raise this process's flag; `check_trigger` on all processes then answers True, once."""
        self._triggered = True

    def check_trigger(self) -> bool:
        """Whether any process has raised its flag; lowers it. All processes must ask."""
        raised = collectives.any_process(self.world, self._triggered)
        self._triggered = False
        return raised

    # Saving

    def get_state_dict(self, target: Any, unwrap: bool = True) -> dict[str, Any]:
        """The whole state of a model or an optimizer in torch's plain format, on every process."""
        return self.strategy.state_dict(target)

    def save(self, obj: Any, f: Any, safe_serialization: bool = False) -> None:
        """`torch.save` on the main process; the file appears complete or not at all."""
        if not self.is_main_process:
            return
        if not isinstance(f, (str, os.PathLike)):
            torch.save(obj, f)
            return
        _save_whole(obj, os.fspath(f), safe_serialization)

    def unwrap_model(self, model: nn.Module, keep_fp32_wrapper: bool = True, keep_torch_compile: bool = True) -> nn.Module:
        """The model itself: `prepare` never wraps. `keep_torch_compile=False` takes off torch.compile's wrapper."""
        if not keep_torch_compile and hasattr(model, "_orig_mod"):
            return model._orig_mod
        return self.strategy.unwrap(model)

    def free_memory(self, *objects: Any) -> list[Any]:
        """Forget everything prepared; returns as many None as objects were given."""
        from .memory import release_memory

        self.strategy.release()
        self._models.clear()
        self._optimizers.clear()
        self._schedulers.clear()
        self._dataloaders.clear()
        return release_memory(*objects)

    clear = free_memory

    def skip_first_batches(self, dataloader: Any, num_batches: int = 0) -> Any:
        """A loader which begins `num_batches` batches later."""
        from .data.skip import skip_first_batches

        return skip_first_batches(dataloader, num_batches)

    # Tracking

    def init_trackers(self, project_name: str, config: dict[str, Any] | None = None, init_kwargs: dict[str, Any] | None = None) -> None:
        """Start the trackers of `log_with`, on the main process."""
        from .tracking import start_trackers

        self.trackers = start_trackers(self, project_name, config, init_kwargs or {})

    def get_tracker(self, name: str, unwrap: bool = False) -> Any:
        """The tracker called `name`, or what it wraps."""
        from .tracking import find_tracker

        return find_tracker(self, name, unwrap)

    def log(self, values: dict[str, Any], step: int | None = None, log_kwargs: dict[str, Any] | None = None) -> None:
        """Hand `values` to all trackers."""
        for tracker in self.trackers:
            tracker.log(values, step=step, **(log_kwargs or {}).get(tracker.name, {}))

    def end_training(self) -> None:
        """Finish the trackers and leave the process group."""
        for tracker in self.trackers:
            tracker.finish()
        self.state.destroy_process_group()

    # What others ask for

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

    def __deepcopy__(self, memo: dict[int, Any]) -> Accelerator:
        return self


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


def _plugin(plugin: GradientAccumulationPlugin | None, steps: int) -> GradientAccumulationPlugin:
    if plugin is None:
        return GradientAccumulationPlugin(num_steps=default_accumulation_steps() if steps == 1 else steps)
    if steps != 1 and plugin.num_steps not in (None, steps):
        raise ValueError(f"gradient_accumulation_steps is {steps} and the plugin's num_steps {plugin.num_steps}: give one of them")
    return GradientAccumulationPlugin(**{**vars(plugin), "num_steps": plugin.num_steps or steps})


def _seed(loss: torch.Tensor, given: torch.Tensor | None, factor: float, divisor: int) -> torch.Tensor | None:
    """The gradient with which the backward starts: no node is added to the graph."""
    if given is None and loss.numel() != 1:
        return None  # torch's own error
    seed = torch.ones_like(loss, requires_grad=False) if given is None else given.clone()
    if divisor != 1:
        seed.div_(divisor)
    return seed if factor == 1.0 else seed.mul_(factor)


def _save_whole(obj: Any, path: str, safe_serialization: bool) -> None:
    folder, name = os.path.split(os.path.abspath(path))
    handle, partial = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
    os.close(handle)
    try:
        if safe_serialization:
            from safetensors.torch import save_file

            save_file(obj, partial, metadata={"format": "pt"})
        else:
            torch.save(obj, partial)
        os.chmod(partial, 0o666 & ~_umask())
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
