"""Making models, optimizers, loaders and schedulers ready for all processes: the methods of `Accelerator`."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader

from . import batchnorm, collectives, marks, scheduler
from .accumulation import Accumulation
from .batches import Tracker
from .compiling import compile_model
from .data.face import LoaderFace
from .data.order import seed_sampler
from .data.prepared import PreparedLoader
from .data.stateful import as_stateful, remembering
from .deepspeed_stand_ins import realized
from .kwargs import DataLoaderConfiguration, DistributedDataParallelKwargs
from .optimizer import OptimizerHooks, install, move_state
from .precision import Precision
from .process import ProcessControl
from .state import AcceleratorState
from .strategies import Strategy
from .world import World


class Preparing(ProcessControl):
    """What `Accelerator` does with what is handed to `prepare`."""

    accumulation: Accumulation
    dataloader_config: DataLoaderConfiguration
    device_placement: bool
    exact: bool
    float8: Any
    """Computes linear layers in float8; None where that is not asked for."""
    kwargs_handlers: dict[type, Any]
    precision: Precision
    state: AcceleratorState
    strategy: Strategy
    sync_batchnorm: bool
    tracker: Tracker
    data_world: World
    """The processes among which batches are shared out: all, unless several compute one model together."""
    loss_world: World
    """The processes over which losses are averaged: those, times the ones that share sequences."""
    _coming: list[Any]
    """Loaders in the call of `prepare` in progress."""
    _dataloaders: list[Any]
    _models: list[nn.Module]
    _optimizers: dict[int, tuple[Optimizer, OptimizerHooks | None]]
    _schedulers: list[Any]

    def prepare(self, *objects: Any, device_placement: list[bool] | None = None) -> Any:
        """Make models, optimizers, loaders and schedulers ready for all processes; returned in the order given.

        Models, optimizers and schedulers stay the very same objects. Anything else is passed through. Twice is harmless.
        """
        objects = realized(objects, self.state.deepspeed_plugin)
        placements = device_placement or [self.device_placement] * len(objects)
        if len(placements) != len(objects):
            raise ValueError(f"device_placement has {len(placements)} entries for {len(objects)} objects: give one for each")
        self._coming = [item for item in objects if isinstance(item, DataLoader)]
        for kind in (nn.Module, Optimizer):
            for item, place in zip(objects, placements, strict=True):
                if isinstance(item, kind):
                    self._prepare_one(item, place)
        results = tuple(
            item if isinstance(item, (nn.Module, Optimizer)) else self._prepare_one(item, place)
            for item, place in zip(objects, placements, strict=True)
        )
        self._coming = []
        return results[0] if len(results) == 1 else results

    def _samples_of_this_process(self) -> int:
        """Of a batch of the loaders that are prepared, or about to be: the largest number; 1 where it is unknown."""
        sizes = [loader.batch_size or getattr(loader.batch_sampler, "batch_size", None) or 1 for loader in [*self._coming, *self._dataloaders]]
        largest = max((size for size in sizes if isinstance(size, int)), default=1)
        return -(-largest // self.data_world.size) if self.exact else largest

    def prepare_model(self, model: nn.Module, device_placement: bool | None = None, evaluation_mode: bool = False) -> nn.Module:
        """Move `model` to the device and make it train on all processes, in place."""
        if any(known is model for known in self._models):
            return model
        if self.device_placement if device_placement is None else device_placement:
            self.strategy.place(model, self.device)
        if self.float8 is not None:
            self.float8.convert(model)
        if not evaluation_mode:
            self.strategy.prepare_model(model)
            if self.exact and self.sync_batchnorm and self.loss_world.size > 1:
                batchnorm.synchronize(model, self.loss_world, self.tracker)
            else:
                batchnorm.leave_alone()
        if not self.exact:
            self.precision.wrap_forward(model)
        compile_model(model, self.state.dynamo_plugin)
        self._models.append(model)
        marks.mark(model)
        return model

    def prepare_optimizer(self, optimizer: Optimizer, device_placement: bool | None = None) -> Optimizer:
        """Make `optimizer` step on all processes, in place."""
        if id(optimizer) not in self._optimizers:
            self.strategy.prepare_optimizer(optimizer)
            move_state(optimizer)
            optimizer.register_step_post_hook(self.accumulation.note_step)
            self._optimizers[id(optimizer)] = (optimizer, install(self, optimizer) if self._steps_differ else None)
            marks.mark(optimizer)
        return optimizer

    def prepare_scheduler(self, scheduler_: Any) -> Any:
        """Let windows and processes decide when `scheduler_` ticks, in place."""
        if not any(known is scheduler_ for known in self._schedulers):
            scheduler.look_wrapped(scheduler_)
            marks.mark(scheduler_)
            # OneCycleLR and kin end with an error in plain PyTorch and silently in Accelerate.
            if self._steps_differ or (not self.exact and hasattr(scheduler_, "total_steps")):
                scheduler.install(self, scheduler_)
            self._schedulers.append(scheduler_)
        return scheduler_

    def prepare_data_loader(self, data_loader: Any, device_placement: bool | None = None, slice_fn_for_dispatch: Any = None) -> Any:
        """A loader that yields this process's part of the batches, on its device."""
        if any(known is data_loader for known in self._dataloaders):
            return data_loader
        place = self.device_placement if device_placement is None else device_placement
        config = self.dataloader_config
        if config.use_stateful_dataloader and isinstance(data_loader, DataLoader):
            data_loader = as_stateful(data_loader)
        if self.exact or self.data_world.size == 1:
            if config.use_seedable_sampler and isinstance(data_loader, DataLoader):
                seed_sampler(self.data_world, data_loader, config.data_seed)
            prepared: Any = PreparedLoader(
                data_loader,
                self.data_world,
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
                self.data_world, data_loader, config, place, slice_fn_for_dispatch, self.tracker, self._share_buffers
            )
        if config.use_stateful_dataloader and isinstance(prepared, LoaderFace):
            prepared = remembering(prepared)
        self._dataloaders.append(prepared)
        return prepared

    def _share_buffers(self) -> None:
        """In per-process mode running statistics drift; each pass begins with the main process's."""
        settings = self.kwargs_handlers.get(DistributedDataParallelKwargs)
        if settings is None or settings.broadcast_buffers:
            for model in self._models:
                collectives.broadcast(self.data_world, list(model.buffers()))

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
        return self.loss_world.size > 1 or self.accumulation.steps > 1 or self.precision.scaling is not None

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
