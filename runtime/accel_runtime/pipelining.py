"""Models whose layers are spread over a pipeline of processes: methods of `Accelerator`, and the pipeline that they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from .collectives import all_reduce
from .stages import Computing, cut_evenly, largest_divisor, schedule_class, slices
from .training import Training

Loss = Callable[[Any, Any], torch.Tensor]


class Pipelining(Training):
    """What `Accelerator` does for `pp_size`."""

    def pipeline_stage(self, model: nn.Sequential, cuts: list[int] | None = None) -> nn.Sequential:
        """This process's layers, under their own names; the whole model without `pp_size`.

        Args:
            model: made alike on all processes.
            cuts: the number of the first layer of each stage but the first; None: stages with about as many parameters.

        Raises:
            ValueError: fewer layers with parameters than stages, or a weight that two stages would share.
        """
        stages = self.strategy.stages
        if stages is None:
            return model
        return slices(model, cut_evenly(model, stages.size) if cuts is None else cuts, stages.size)[stages.rank]

    def prepare_pipeline(self, stage: nn.Module, loss_fn: Loss, n_microbatches: int | None = None, schedule: Any = "1F1B") -> Pipeline:
        """The pipeline that runs batches through `stage`, which is prepared, and those of the other processes.

        Args:
            stage: this process's layers; what one returns is what the next one gets.
            loss_fn: `loss_fn(output, target)`, the mean over the rows.
            n_microbatches: parts of a batch, which have to be equal: for a batch that it does not divide, fewer. None: two for each stage.
            schedule: "1F1B" or "GPipe", or a class of `torch.distributed.pipelining` with one stage for each process.
        """
        if self.strategy.stages is None:
            return Pipeline(self, stage, loss_fn)
        return Staged(self, stage, loss_fn, n_microbatches or 2 * self.strategy.stages.size, schedule_class(schedule))


class Pipeline:
    """All stages on this process."""

    def __init__(self, accelerator: Pipelining, stage: nn.Module, loss_fn: Loss) -> None:
        self.accelerator = accelerator
        self.stage = stage
        self.loss_fn = loss_fn

    def step(self, *inputs: torch.Tensor, target: Any) -> torch.Tensor:
        """Forward and backward of a batch; the mean loss of the global batch, on every process."""
        with self.accelerator.autocast():
            loss = self.loss_fn(self.stage(*inputs), target)
        self.accelerator.backward(loss)
        return self.accelerator.global_mean(loss)

    @torch.no_grad()
    def eval(self, *inputs: torch.Tensor) -> torch.Tensor:
        """The model's output for these inputs, on every process of the pipeline."""
        with self.accelerator.autocast():
            return self.stage(*inputs)


class Staged(Pipeline):
    """One stage on this process; torch's schedule for each size of a batch is made once."""

    def __init__(self, accelerator: Pipelining, stage: nn.Module, loss_fn: Loss, n_microbatches: int, schedule: Any) -> None:
        super().__init__(accelerator, stage, loss_fn)
        assert accelerator.strategy.stages is not None
        self.stages = accelerator.strategy.stages
        self.first, self.last = self.stages.rank == 0, self.stages.rank == self.stages.size - 1
        self.n_microbatches = n_microbatches
        self.schedule = schedule
        self.module = Computing(stage, accelerator.autocast)
        self._schedules: dict[Any, Any] = {}
        self._scale = torch.ones(())
        self._losses: list[torch.Tensor] = []

    def step(self, *inputs: torch.Tensor, target: Any) -> torch.Tensor:
        trainer = self.accelerator
        factor = trainer._factor(torch.zeros((), device=trainer.device), "mean", None) if trainer.data_world.size > 1 else 1.0
        running, parts = self._for(inputs)
        one, scaler = torch.ones((), device=trainer.device), trainer.precision.scaling
        self._scale = (one if scaler is None else scaler.scale(one)) * (factor / trainer.accumulation.divisor / parts)
        self._losses = []
        with trainer.strategy.no_sync():
            running.step(*(inputs if self.first else ()), **({"target": target, "losses": []} if self.last else {}))
        trainer.strategy.average()
        trainer.accumulation.note_backward()
        if trainer.accumulation.rescale != 1.0:
            trainer._rescale_gradients(trainer.accumulation.rescale)
        mean = torch.stack(self._losses[-parts:]).mean() if self.last else torch.zeros((), device=trainer.device)
        return all_reduce(trainer.world, mean * (factor / trainer.data_world.size))

    @torch.no_grad()
    def eval(self, *inputs: torch.Tensor) -> torch.Tensor:
        running, _ = self._for(inputs)
        self._losses = []
        output = running.eval(*(inputs if self.first else ()))
        shape = [(tuple(output.shape), output.dtype)] if self.last else [None]
        source = dist.get_global_rank(self.stages.group, self.stages.size - 1)
        dist.broadcast_object_list(shape, source, group=self.stages.group)
        size, dtype = shape[0]  # type: ignore[misc]
        output = output.contiguous() if self.last else torch.empty(size, dtype=dtype, device=self.accelerator.device)
        dist.broadcast(output, source, group=self.stages.group)
        return output

    def _loss(self, output: Any, target: Any) -> torch.Tensor:
        with self.accelerator.autocast():
            loss = self.loss_fn(output, target)
        self._losses.append(loss.detach())  # the first time once more: torch tries for shapes
        return loss * self._scale

    def _for(self, inputs: tuple[torch.Tensor, ...]) -> tuple[Any, int]:
        """The schedule for a batch of this size, and in how many parts it runs."""
        rows = len(inputs[0])
        parts = largest_divisor(rows, self.n_microbatches)
        key = (parts, *(tuple(each.shape) for each in inputs), torch.is_grad_enabled())
        if key not in self._schedules:
            self._schedules[key] = self._made(parts)
        return self._schedules[key], parts

    def _made(self, parts: int) -> Any:
        from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

        stage = PipelineStage(self.module, self.stages.rank, self.stages.size, self.accelerator.device, group=self.stages.group)
        kind = self.schedule if parts >= self.stages.size else ScheduleGPipe  # the others want a part for each stage
        return kind(stage, parts, loss_fn=self._loss if torch.is_grad_enabled() else None, scale_grads=False)
