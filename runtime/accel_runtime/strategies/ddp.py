"""Data parallel training, in place: gradients are averaged from hooks on the parameters, the model stays itself."""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import weakref
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..kwargs import DistributedDataParallelKwargs
from ..world import World, leave
from .base import Strategy
from .joining import Turns
from .power_sgd import KINDS, PowerSGD
from .reducer import COMPRESSIONS, GradientReducer, Reduction
from .settings import Settings

_BROADCAST_BYTES = 250 * 2**20


class DataParallel(Strategy):
    """Every process holds the whole model and a part of each batch.

    Each `prepare_model` makes one group of parameters; an optimizer's parameters of no prepared model make another.
    """

    def __init__(self, world: World, settings: Settings) -> None:
        super().__init__(world, settings)
        gradients = settings.gradients
        self.reduction = Reduction(world.size, gradients.bucket_cap_mb * 2**20, *_compression(gradients))
        _reductions.add(self.reduction)
        self._separate = False
        if world.backend == "gloo":
            _leave_at_exit()

    @classmethod
    def suits(cls, world: World, settings: Settings) -> bool:
        return world.size > 1 and not settings.zero

    def prepare_model(self, model: nn.Module) -> nn.Module:
        new = self.reduction.unknown(self._replicated(model.parameters()))
        if new:
            self._separate_gradients(model)
            _broadcast([*new, *model.buffers()])
            self.reduction.add(GradientReducer(self.reduction, new, _sparse_parameters(model)))
        return model

    def _replicated(self, parameters: Iterable[torch.Tensor]) -> Iterable[torch.Tensor]:
        """Those that every process holds whole, whose gradients are averaged here."""
        return parameters

    def _separate_gradients(self, model: nn.Module) -> None:
        """Give gradients a group of their own where a backward may hold other collectives.

        When a bucket leaves depends on which parameters a process uses, so the order against the others is not fixed.
        """
        if not self._separate and (self.world.backend == "gloo" or any(isinstance(m, _BatchNorm) for m in model.modules())):
            self._separate = True
            self.reduction.group = dist.new_group()

    def prepare_optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        new = self.reduction.unknown(self._replicated(p for group in optimizer.param_groups for p in group["params"]))
        if new:
            _broadcast(new)
            reducer = GradientReducer(self.reduction, new)
            self.reduction.add(reducer)
            with torch.no_grad():
                reducer.finish()  # a parameter added in mid-training brings the gradient of its first backward
        return optimizer

    def no_sync(self) -> AbstractContextManager[None]:
        return self._synchronized(False)

    def sync(self) -> AbstractContextManager[None]:
        return self._synchronized(True)

    @contextlib.contextmanager
    def _synchronized(self, enabled: bool) -> Iterator[None]:
        before, self.reduction.enabled = self.reduction.enabled, enabled
        try:
            yield
        finally:
            self.reduction.enabled = before

    def join(self) -> AbstractContextManager[Turns] | None:
        return self._joined()

    @contextlib.contextmanager
    def _joined(self) -> Iterator[Turns]:
        turns = Turns(self.reduction, self.world)
        with turns:
            yield turns
        if turns.furthest is not None:
            _broadcast(self.reduction.parameters(), turns.furthest)

    @contextlib.contextmanager
    def without_nan(self) -> Iterator[None]:
        self.reduction.set_aside()
        try:
            yield
        finally:
            self.reduction.put_back()

    def release(self) -> None:
        self.reduction.release()


def _compression(gradients: DistributedDataParallelKwargs) -> tuple[torch.dtype | None, PowerSGD | None]:
    """The type in which gradients travel, and how they are factored."""
    hook, wrapper = _name(gradients.comm_hook), _name(gradients.comm_wrapper)
    for field, value, allowed in (("comm_hook", hook, (*COMPRESSIONS, *KINDS)), ("comm_wrapper", wrapper, tuple(COMPRESSIONS))):
        if value not in allowed:
            raise ValueError(f"{field} is {value!r}: it must be one of {', '.join(map(repr, allowed))}")
    if hook in KINDS:
        return None, PowerSGD(gradients.comm_state_option, hook == "batched_power_sgd", COMPRESSIONS[wrapper])
    return COMPRESSIONS[wrapper] if COMPRESSIONS[hook] is None else COMPRESSIONS[hook], None


def _name(chosen: Any) -> str:
    return str(getattr(chosen, "value", chosen))


@functools.cache
def _leave_at_exit() -> None:
    """gloo's threads must have ended before the interpreter does: now and then the process aborts otherwise."""
    atexit.register(_leave)


_reductions: weakref.WeakSet[Reduction] = weakref.WeakSet()


def _leave() -> None:
    """Let go of the groups first: as long as something holds one, leaving it does not end its threads."""
    for reduction in list(_reductions):
        reduction.group = None
    gc.collect()
    leave()
    gc.collect()


def _sparse_parameters(model: nn.Module) -> set[torch.Tensor]:
    """The weights of embeddings whose gradients are sparse tensors."""
    return {module.weight for module in model.modules() if getattr(module, "sparse", False) is True and hasattr(module, "weight")}


@torch.no_grad()
def _broadcast(tensors: list[torch.Tensor], rank: int = 0, group: Any = None) -> None:
    """Overwrite the tensors by those of process `rank` of `group`, by default of all."""
    strided = [t.detach() for t in tensors if t.layout is torch.strided and t.numel()]
    if strided:
        dist._broadcast_coalesced(group or dist.group.WORLD, strided, _BROADCAST_BYTES, rank)
