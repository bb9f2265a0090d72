"""The strategy of one process, and what every other one overrides."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from ..world import World
from . import placing
from .sequences import Sequences
from .settings import Settings


class Strategy:
    """One process: models and optimizers are used as they are.

    Attributes:
        name: what Accelerate calls it, one of `DistributedType`; "" for plain data parallelism.
        scales_losses: whether it has a gradient scaler of its own for "fp16".
    """

    name = ""
    scales_losses = False

    def __init__(self, world: World, settings: Settings) -> None:
        self.world = world
        self.data_world = world
        """The processes among which batches are shared out."""
        self.loss_world = world
        """The processes over which losses and gradients are averaged: those, times the ones that share sequences."""
        self.stages: World | None = None
        """The processes of this one's pipeline, where there are pipelines."""
        self.sequences: Sequences | None = None
        """How sequences are shared, where they are."""
        self.settings = settings

    @classmethod
    def suits(cls, world: World, settings: Settings) -> bool:
        """Whether this strategy is what `settings` ask for in `world`."""
        return True

    def place(self, model: nn.Module, device: torch.device) -> nn.Module:
        """Bring the weights of `model` to `device`, in place; those on the meta device are initialised."""
        return placing.move(model, device)

    def prepare_model(self, model: nn.Module) -> nn.Module:
        """Make `model`, already on its device, train on all processes, in place."""
        return model

    def prepare_optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        """Make the parameters of `optimizer` train on all processes, in place."""
        return optimizer

    def backward(self, loss: torch.Tensor, **kwargs: Any) -> None:
        """`loss.backward(**kwargs)`."""
        loss.backward(**kwargs)

    def average(self) -> None:
        """Average the gradients that pipelines have left."""

    def no_sync(self) -> AbstractContextManager[None]:
        """Inside, backwards leave gradients local; the next one outside averages what has accumulated."""
        return contextlib.nullcontext()

    def sync(self) -> AbstractContextManager[None]:
        """Inside, backwards average gradients, also within `no_sync`."""
        return contextlib.nullcontext()

    def join(self) -> AbstractContextManager[Any] | None:
        """Inside, processes may run unequal numbers of backwards; None where this strategy cannot have that.

        At the end every process has the weights of the one that went furthest, whose rank the context's value then holds.
        """
        return contextlib.nullcontext()

    def without_nan(self) -> AbstractContextManager[None]:
        """Inside, a backward at weight zero takes part in all communication; where zero times infinity is NaN, zero counts."""
        return contextlib.nullcontext()

    def adapt_scaler(self, scaler: torch.amp.GradScaler) -> None:
        """Let the gradient scaler find overflows of all processes, in place."""

    def clip_grad_norm(self, parameters: Iterable[torch.Tensor], max_norm: float, norm_type: float = 2.0) -> torch.Tensor:
        """Scale gradients down to `max_norm`; the norm before, over all processes."""
        return nn.utils.clip_grad_norm_(parameters, max_norm, norm_type=norm_type)

    def clip_grad_value(self, parameters: Iterable[torch.Tensor], clip_value: float) -> None:
        """Clamp every gradient to `[-clip_value, clip_value]`."""
        nn.utils.clip_grad_value_(parameters, clip_value)

    def groups(self, optimizer: torch.optim.Optimizer) -> list[list[torch.Tensor]]:
        """The script's parameters that each group of `optimizer` trains."""
        return [group["params"] for group in optimizer.param_groups]

    def numbers(self, optimizers: list[torch.optim.Optimizer]) -> list[int]:
        """The numbers of this process's parameters, each once, among all that the optimizers train."""
        return list(range(len({id(p) for o in optimizers for group in o.param_groups for p in group["params"]})))

    def state_dict(self, target: Any) -> dict[str, Any]:
        """The whole state of a model or an optimizer in torch's plain format, on every process."""
        return target.state_dict()

    def sharded_state_dict(self, target: Any) -> dict[str, Any]:
        """The state of a model or an optimizer as this process holds it: DTensors where it is sharded; no communication, unless it `gathers_states`."""
        return target.state_dict()

    @property
    def saves_whole(self) -> bool:
        """Whether checkpoints hold whole states even where these are sharded, written by the main process."""
        return False

    @property
    def gathers_states(self) -> bool:
        """Whether `sharded_state_dict` has to ask the other processes, and gives whole states."""
        return False

    def load_state_dict(self, target: Any, state: dict[str, Any]) -> Any:
        """Load a whole state in torch's plain format."""
        return target.load_state_dict(state)

    def unwrap(self, model: nn.Module) -> nn.Module:
        """The user's own model."""
        return model

    def release(self) -> None:
        """Forget everything prepared."""
