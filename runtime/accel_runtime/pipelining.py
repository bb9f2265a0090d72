"""Models whose layers are spread over a pipeline of processes: methods of `Accelerator`, and the pipeline that they make."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from .collectives import all_reduce
from .stage_outlines import Outline, examples, explore, filled
from .stages import Computing, cut_evenly, in_parts, largest_divisor, recent, schedule_class, slices
from .training import Training

Loss = Callable[[Any, Any], torch.Tensor]
_SCHEDULES = 8
"""How many are kept: for training and evaluation, whole and last batches, and some."""
_OUTLINES = 4096


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
    def eval(self, *inputs: torch.Tensor) -> Any:
        """The model's output for these inputs, on every process of the pipeline."""
        with self.accelerator.autocast():
            return self.stage(*inputs)


class Staged(Pipeline):
    """One stage on this process; torch's schedules for the last few sizes of batches are kept, since they hold buffers."""

    def __init__(self, accelerator: Pipelining, stage: nn.Module, loss_fn: Loss, n_microbatches: int, schedule: Any) -> None:
        super().__init__(accelerator, stage, loss_fn)
        assert accelerator.strategy.stages is not None
        self.stages = accelerator.strategy.stages
        self.first, self.last = self.stages.rank == 0, self.stages.rank == self.stages.size - 1
        self.n_microbatches = n_microbatches
        self.schedule = schedule
        self._outlines: OrderedDict[Any, list[Outline]] = OrderedDict()
        self._schedules: OrderedDict[Any, Any] = OrderedDict()
        self._scale = torch.ones(())
        self._losses: list[torch.Tensor] = []
        self._targets: list[Any] = []

    def step(self, *inputs: torch.Tensor, target: Any) -> torch.Tensor:
        trainer = self.accelerator
        factor = trainer._factor(torch.zeros((), device=trainer.device), "mean", None) if trainer.data_world.size > 1 else 1.0
        running, parts, _ = self._for(inputs)
        one, scaler = torch.ones((), device=trainer.device), trainer.precision.scaling
        self._scale = (one if scaler is None else scaler.scale(one)) * (factor / trainer.accumulation.divisor / parts)
        self._losses, self._targets = [], in_parts(target, len(inputs[0]), parts) if self.last else []
        with trainer.strategy.no_sync():
            running.step(*(inputs if self.first else ()), **({"target": torch.arange(parts), "losses": []} if self.last else {}))
        self._targets = []
        trainer.strategy.average()
        trainer.accumulation.note_backward()
        if trainer.accumulation.rescale != 1.0:
            trainer._rescale_gradients(trainer.accumulation.rescale)
        mean = torch.stack(self._losses).mean() if self.last else torch.zeros((), device=trainer.device)
        return all_reduce(trainer.world, mean * (factor / trainer.data_world.size))

    @torch.no_grad()
    def eval(self, *inputs: torch.Tensor) -> Any:
        running, _, outline = self._for(inputs)
        tensors = running.eval(*(inputs if self.first else ()))
        shapes = [[(tuple(t.shape), t.dtype) for t in tensors]] if self.last else [None]
        source = dist.get_global_rank(self.stages.group, self.stages.size - 1)
        dist.broadcast_object_list(shapes, source, group=self.stages.group)
        if not self.last:
            tensors = [torch.empty(size, dtype=dtype, device=self.accelerator.device) for size, dtype in shapes[0]]  # type: ignore[union-attr]
        for tensor in tensors:
            dist.broadcast(tensor, source, group=self.stages.group)
        return filled(outline, tensors)

    def _loss(self, output: Any, number: torch.Tensor) -> torch.Tensor:
        """Of a micro-batch; torch splits tensors only, hence targets are known to it by their number."""
        with self.accelerator.autocast():
            loss = self.loss_fn(output, self._targets[int(number)])
        self._losses.append(loss.detach())
        return loss * self._scale

    def _for(self, inputs: tuple[torch.Tensor, ...]) -> tuple[Any, int, Outline]:
        """The schedule for a batch of this size, in how many parts it runs, and what the model returns for one."""
        parts = largest_divisor(len(inputs[0]), self.n_microbatches)
        key = (parts, self.stage.training, *((tuple(each.shape), each.dtype) for each in inputs))
        rows = tuple(each.tensor_split(parts)[0] for each in inputs)
        outlines = recent(self._outlines, key, lambda: self._explored(rows), _OUTLINES)
        learns = torch.is_grad_enabled()
        return recent(self._schedules, (learns, *key), lambda: self._made(parts, rows, outlines, learns), _SCHEDULES), parts, outlines[-1]

    def _explored(self, rows: tuple[torch.Tensor, ...]) -> list[Outline]:
        module = Computing(self.stage, self.accelerator.autocast)
        return explore(lambda given: module.run(given, self.first), self.stage, self.stages, rows)

    def _made(self, parts: int, rows: tuple[torch.Tensor, ...], outlines: list[Outline], learns: bool) -> Any:
        from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

        number, device = self.stages.rank, self.accelerator.device
        given = None if self.first else outlines[number - 1]
        module = Computing(self.stage, self.accelerator.autocast, given, flat=not (self.last and learns))
        inputs = examples(tuple(each.detach() for each in rows), False) if given is None else examples(given, learns)
        outputs = examples(outlines[number], learns)
        stage = PipelineStage(module, number, self.stages.size, device, input_args=inputs, output_args=outputs, group=self.stages.group)
        kind = self.schedule if parts >= self.stages.size else ScheduleGPipe  # the others want a part for each stage
        return kind(stage, parts, loss_fn=self._loss if learns else None, scale_grads=False)
