"""The whole from the parts that the processes have: methods of `Accelerator`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import collectives, global_values
from .batches import Tracker
from .drawing import draw_rows
from .process import ProcessControl
from .strategies.sequences import refuse, sharing
from .world import World


class Combining(ProcessControl):
    """What `Accelerator` offers to reduce, gather and draw."""

    data_world: World
    loss_world: World
    tracker: Tracker
    _triggered: bool

    def global_mean(self, value: Any, weight: Any = None) -> Any:
        """The mean over the global batch of `value`, a mean over this process's rows; detached. One scalar reduction."""
        return global_values.global_mean(self.loss_world, self.tracker, value, weight)

    def global_sum(self, value: Any) -> Any:
        """The sum over the global batch of `value`, a sum over this process's rows (and its parts of sequences); detached."""
        return global_values.global_sum(self.data_world if sharing() is None else self.loss_world, self.tracker, value)

    def global_len(self, value: Any) -> int:
        """The rows of which `value` (or a number of samples) is this process's part.

        Needs no communication for the batch's own tensors and lists and for numbers; for others all processes have to ask.
        """
        return global_values.global_len(self.data_world, self.tracker, value)

    def draw(self, factory: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """`factory(*args, **kwargs)` for the global batch, and of it this process's rows; see `accel_runtime.draw`."""
        refuse("draw", "draw before, and give the result as one of the buffers")
        return draw_rows(self.data_world, self.tracker, factory, *args, **kwargs)

    def shard_batch(self, batch: Any, dim: int = 0) -> Any:
        """This process's rows of a batch that the script makes by itself, without a loader.

        Process 0's batch counts, so it need not be the same on all. Losses, means and draws of its rows are then those of
        the global batch, as with a prepared loader. On one process the batch is returned as it is.

        Args:
            batch: a tensor or array whose dimension 0 is the samples, a list with one entry for each sample, or a tuple or
                dict of such.
            dim: the dimension of the samples, for tensors with another one: the state that a recurrent layer starts from,
                (layers, samples, features), is cut along dimension 1. It belongs to the batches, and is none itself.

        Raises:
            ValueError: there is nothing to cut in it.
        """
        from .data.by_hand import shard_batch, shard_state

        return shard_state(self.data_world, batch, dim) if dim else shard_batch(self.data_world, self.tracker, batch)

    def gather(self, tensor: Any) -> Any:
        """All processes' tensors, concatenated along dimension 0."""
        return collectives.gather(self.data_world, tensor)

    def gather_for_metrics(self, input_data: Any, use_gather_object: bool = False, in_blocks: bool = False) -> Any:
        """The results for the global batch: its rows in the original order, each once.

        `in_blocks` says that the rows are several batches one after another, as `torch.cat([first, second])` makes them.
        """
        from .metrics import gather_for_metrics

        refuse("gather_for_metrics", "evaluate outside, where all have whole sequences, or take global_mean or global_sum")
        if in_blocks:
            from .whole_batch import by_blocks

            return by_blocks(self, input_data, lambda parts: gather_for_metrics(self, parts, False))
        return gather_for_metrics(self, input_data, use_gather_object)

    def local_rows(self, whole: Any) -> Any:
        """This process's rows of what was computed from the whole batch, such as `gather_for_metrics(x).flip(0)`; no communication.

        Args:
            whole: tensors `[rows of the global batch, ...]`, or a container of such.

        Raises:
            ValueError: no batch in use has as many rows; on several processes, in a script without `split_batches=True`, none has.
        """
        from .whole_batch import local_rows

        return local_rows(self, whole)

    def gather_with_grad(self, data: Any, in_blocks: bool = False) -> Any:
        """The rows of the global batch in the original order, each once, with gradients: for losses that look at all of them.

        Every process computes the same loss from them; `backward(loss)`, without reduction or weight, then averages to its
        gradient. On one process `data` itself is returned.

        Args:
            data: tensors `[rows, ...]` computed from this process's part of the batch, or a container of such.
            in_blocks: the rows are several batches one after another, as `torch.cat([first, second])` makes them.

        Raises:
            ValueError: a tensor has no dimensions; with `in_blocks`, its rows are not several times those of the batch.
        """
        from .whole_batch import gather_with_grad

        refuse("gather_with_grad", "call it outside, with cp_size 1")
        return gather_with_grad(self, data, in_blocks)

    def reduce(self, tensor: Any, reduction: str = "sum", scale: float = 1.0) -> Any:
        """Sum or mean over processes."""
        return collectives.reduce(self.data_world, tensor, reduction, scale)

    def pad_across_processes(self, tensor: Any, dim: int = 0, pad_index: float = 0, pad_first: bool = False) -> Any:
        """Pad tensors to the longest of all processes along `dim`."""
        return collectives.pad_across_processes(self.data_world, tensor, dim, pad_index, pad_first)

    def set_trigger(self) -> None:
        """Raise this process's flag; `check_trigger` on all processes then answers True, once."""
        self._triggered = True

    def check_trigger(self) -> bool:
        """Whether any process has raised its flag; lowers it. All processes must ask."""
        raised = collectives.any_process(self.world, self._triggered)
        self._triggered = False
        return raised
