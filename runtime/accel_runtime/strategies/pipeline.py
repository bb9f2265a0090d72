"""Pipeline parallel training: each process has some of the layers, and batches run through them in micro-batches.

The processes of one pipeline work on the same part of a batch; batches are shared out among the pipelines, whose stages of one number average
their gradients. States are whole: those of all stages, under the names that the layers have in the whole model.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from ..world import World
from . import mesh, pipeline_states, sharded
from .ddp import DataParallel, _broadcast, _sparse_parameters
from .reducer import GradientReducer
from .settings import Settings


class PipelineParallel(DataParallel):
    """Copies of a pipeline, each over the neighbours of the mesh's dimension "pp"."""

    def __init__(self, world: World, settings: Settings) -> None:
        from torch.distributed.device_mesh import init_device_mesh

        assert settings.parallelism is not None
        settings.parallelism.check(world.size)
        super().__init__(world, settings)
        size = settings.parallelism.pp_size
        whole = init_device_mesh(world.device.type, (size, world.size // size), mesh_dim_names=("pp", "dp"))  # type: ignore[arg-type, operator]
        self.data_world = self.loss_world = mesh._seen_from_here(world, whole["dp"])
        self.stages = mesh._seen_from_here(world, whole["pp"])
        self.reduction.size, self.reduction.group = self.data_world.size, self.data_world.group
        self._counts: dict[int, list[list[int]]] = {}

    @classmethod
    def suits(cls, world: World, settings: Settings) -> bool:
        return world.size > 1 and settings.parallelism is not None and settings.parallelism.pp_enabled

    def prepare_model(self, model: nn.Module) -> nn.Module:
        new = self.reduction.unknown(model.parameters())
        if new:
            self._make_alike([*new, *model.buffers()])
            self.reduction.add(GradientReducer(self.reduction, new, _sparse_parameters(model)))
            pipeline_states.accept_whole_states(model, self.stages)
        return model

    def prepare_optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        sharded.refuse_one_vector(optimizer)
        new = self.reduction.unknown(p for group in optimizer.param_groups for p in group["params"])
        if new:
            self._make_alike(new)
            self.reduction.add(GradientReducer(self.reduction, new))
        self._counts[id(optimizer)] = pipeline_states.accept_whole_optimizer_states(optimizer, self.stages)
        return optimizer

    def _make_alike(self, tensors: list[torch.Tensor]) -> None:
        if self.data_world.size > 1:
            _broadcast(tensors, group=self.data_world.group)

    def backward(self, loss: torch.Tensor, **kwargs: Any) -> None:
        raise RuntimeError("with pp_size the loss belongs to the schedule: train by loss = pipeline.step(x, target=y), with pipeline = accelerator.prepare_pipeline(...)")

    def average(self) -> None:
        """Average the gradients of this stage over all pipelines."""
        if self.data_world.size > 1 and self.reduction.enabled:
            with torch.no_grad():
                for reducer in self.reduction.reducers:
                    reducer.finish()

    def join(self) -> None:
        return None

    def without_nan(self) -> AbstractContextManager[None]:
        return super(DataParallel, self).without_nan()

    def adapt_scaler(self, scaler: torch.amp.GradScaler) -> None:
        sharded.unscale_everywhere(scaler)

    def clip_grad_norm(self, parameters: Iterable[torch.Tensor], max_norm: float, norm_type: float = 2.0) -> torch.Tensor:
        parameters = list(parameters)
        norm = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None], norm_type).to(self.world.device)
        norm = sharded._over_group(norm, float(norm_type), self.stages.group)
        nn.utils.clip_grads_with_norm_(parameters, max_norm, norm)
        return norm

    def groups(self, optimizer: torch.optim.Optimizer) -> list[list[torch.Tensor]]:
        """Of all stages; those of the others by stand-ins."""
        return [[torch.empty(0)] * sum(numbers) for numbers in zip(*self._counts[id(optimizer)], strict=True)]

    def numbers(self, optimizers: list[torch.optim.Optimizer]) -> list[int]:
        """Those of the whole model's, since other stages have the others.

        Raises:
            ValueError: two optimizers have a parameter in common.
        """
        found: list[int] = []
        before = 0
        for optimizer in optimizers:
            counts = self._counts[id(getattr(optimizer, "optimizer", optimizer))]
            found += [before + number for number in pipeline_states.places(counts, self.stages.rank)]
            before += sum(map(sum, counts))
        if len(found) != len(super().numbers(optimizers)):
            raise ValueError("two optimizers have a weight in common: gradients in the middle of an accumulation window cannot be saved or loaded then with pp_size; call save_state after the optimizer's step")
        return found

    @property
    def saves_whole(self) -> bool:
        return True

    @property
    def gathers_states(self) -> bool:
        return True

    def state_dict(self, target: Any) -> dict[str, Any]:
        if isinstance(target, nn.Module):
            return pipeline_states.whole_model(target, self.stages)
        return pipeline_states.whole_optimizer(target, self.stages)

    def sharded_state_dict(self, target: Any) -> dict[str, Any]:
        return self.state_dict(target)

    def release(self) -> None:
        super().release()
        self._counts.clear()
