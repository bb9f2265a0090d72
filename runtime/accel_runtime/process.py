"""Control of single processes: who goes first, who runs a function, who gets which inputs, who prints."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from .collectives import barrier
from .world import World

Function = Callable[..., Any]


class ProcessControl:
    """What `PartialState`, `AcceleratorState` and `Accelerator` offer alike; needs an attribute `world`."""

    world: World

    @property
    def num_processes(self) -> int:
        """How many processes train together."""
        return self.world.size

    @property
    def process_index(self) -> int:
        """Rank of this process among all."""
        return self.world.rank

    @property
    def local_process_index(self) -> int:
        """Rank of this process on its machine."""
        return self.world.local_rank

    @property
    def device(self) -> torch.device:
        """The device of this process."""
        return self.world.device

    @property
    def use_distributed(self) -> bool:
        """Whether there is more than one process."""
        return self.world.size > 1

    @property
    def is_main_process(self) -> bool:
        """Whether this is rank 0."""
        return self.world.rank == 0

    @property
    def is_local_main_process(self) -> bool:
        """Whether this is the first process of its machine."""
        return self.world.local_rank == 0

    @property
    def is_last_process(self) -> bool:
        """Whether this is the highest rank."""
        return self.world.rank == self.world.size - 1

    def wait_for_everyone(self) -> None:
        """Wait until every process has come here; all of them have to."""
        barrier(self.world)

    @contextmanager
    def main_process_first(self) -> Iterator[None]:
        """The others enter the block when the main process has left it (prepare a file once, then read it)."""
        with goes_first(self.world, self.world.is_main):
            yield

    @contextmanager
    def local_main_process_first(self) -> Iterator[None]:
        """The others enter the block when the first process of each machine has left it."""
        with goes_first(self.world, self.world.is_local_main):
            yield

    @contextmanager
    def split_between_processes(self, inputs: Any, apply_padding: bool = False) -> Iterator[Any]:
        """Give each process its contiguous part of `inputs`; see `split_inputs`."""
        yield split_inputs(self.world, inputs, apply_padding)

    def on_main_process(self, function: Function | None = None) -> Function:
        """Decorator: run `function` on the main process only; elsewhere the call returns None."""
        return _only_if(lambda: self.is_main_process, function)

    def on_local_main_process(self, function: Function | None = None) -> Function:
        """Decorator: run `function` on the first process of each machine only."""
        return _only_if(lambda: self.is_local_main_process, function)

    def on_last_process(self, function: Function | None = None) -> Function:
        """Decorator: run `function` on the highest rank only."""
        return _only_if(lambda: self.is_last_process, function)

    def on_process(self, function: Function | None = None, process_index: int | None = None) -> Function:
        """Decorator: run `function` on rank `process_index` only."""
        return _only_if(lambda: self.process_index == process_index, function)

    def on_local_process(self, function: Function | None = None, local_process_index: int | None = None) -> Function:
        """Decorator: run `function` on local rank `local_process_index` of each machine only."""
        return _only_if(lambda: self.local_process_index == local_process_index, function)

    def print(self, *args: Any, **kwargs: Any) -> None:
        """`print`, once per machine."""
        if self.is_local_main_process:
            print(*args, **kwargs)


@contextmanager
def goes_first(world: World, first: bool) -> Iterator[None]:
    """Processes with `first` run the block, then the others do."""
    if not first:
        barrier(world)
    try:
        yield
    finally:
        if first:
            barrier(world)  # also after an exception: the others must not wait for ever


def split_inputs(world: World, inputs: Any, apply_padding: bool = False) -> Any:
    """This process's contiguous part of a list, tuple, string, tensor, data set or dictionary of those.

    Earlier processes get one entry more where it does not divide; later ones may get none.

    Args:
        world: the processes.
        inputs: what to share out; all values of a dictionary must be of one length.
        apply_padding: repeat the last entry so that every process has as many, and outputs can be gathered.

    Raises:
        ValueError: the values of a dictionary differ in length.
    """
    if world.size == 1:
        return inputs
    if isinstance(inputs, Mapping):
        lengths = {key: len(value) for key, value in inputs.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"split_between_processes needs values of one length and got {lengths}")
        return type(inputs)({key: split_inputs(world, value, apply_padding) for key, value in inputs.items()})  # type: ignore[call-arg]
    small, extra = divmod(len(inputs), world.size)
    start = world.rank * small + min(world.rank, extra)
    wanted = small + (extra > 0)
    stop = start + small + (world.rank < extra)
    if not apply_padding or stop - start == wanted or len(inputs) == 0:
        return _rows(inputs, range(start, stop))
    return _rows(inputs, [*range(start, stop), *[_last(start, stop, len(inputs))] * (wanted - (stop - start))])


def _last(start: int, stop: int, length: int) -> int:
    """The entry that pads `start:stop`: its own last one, or the very last if it is empty."""
    return stop - 1 if stop > start else length - 1


def _rows(inputs: Any, indices: range | list[int]) -> Any:
    if hasattr(inputs, "select") and not isinstance(inputs, torch.Tensor):  # Hugging Face's data sets: rows, not columns
        return inputs.select(indices)
    if isinstance(indices, range):
        return inputs[indices.start : indices.stop]
    if isinstance(inputs, torch.Tensor):
        return inputs[indices]
    return type(inputs)([inputs[i] for i in indices])


def _only_if(condition: Callable[[], bool], function: Function | None) -> Function:
    if function is None:
        return functools.partial(_only_if, condition)

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs) if condition() else None

    return guarded
