"""DeepSpeed's ZeRO: an engine behind the script's own objects.

DeepSpeed's engine is made of a model and its optimizer when the optimizer is prepared. The model stays the same object and is
called as ever; `accelerator.backward` runs the engine's backward, and the optimizer's own `step` the engine's step.
"""

from __future__ import annotations

import contextlib
import os
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from ..deepspeed_plugin import DeepSpeedPlugin, filled
from ..world import World
from . import deepspeed_states as states
from .base import Strategy
from .ddp import _broadcast
from .settings import Settings


class DeepSpeed(Strategy):
    """ZeRO 1, 2 and 3. Every process trains on its own part of each batch."""

    name = "DEEPSPEED"

    def __init__(self, world: World, settings: Settings) -> None:
        super().__init__(world, settings)
        assert settings.deepspeed is not None
        self.models: list[nn.Module] = []
        self.engines: list[Engine] = []
        self._boundary = True
        self.scales_losses = settings.precision == "fp16" and world.device.type != "cpu"

    @classmethod
    def suits(cls, world: World, settings: Settings) -> bool:
        return world.size > 1 and settings.zero

    @property
    def plugin(self) -> DeepSpeedPlugin:
        """The one in use."""
        return self.settings.selected() or self.settings.deepspeed  # type: ignore[return-value]

    def prepare_model(self, model: nn.Module) -> nn.Module:
        self.models.append(model)
        return model

    def prepare_optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        if not any(engine.script_optimizer is optimizer for engine in self.engines):
            model = self._model_of(optimizer)
            self.engines.append(Engine(model, optimizer, self._config(model), self.world))
        return optimizer

    def _model_of(self, optimizer: torch.optim.Optimizer) -> nn.Module:
        trained = {id(p) for group in optimizer.param_groups for p in group["params"]}
        owners = [model for model in self.models if trained & {id(p) for p in model.parameters()}]
        if len(owners) != 1 or trained - {id(p) for p in owners[0].parameters()}:
            raise ValueError(
                f"under DeepSpeed an optimizer trains the weights of one prepared model, and this {type(optimizer).__name__} has those of "
                f"{len(owners)}{' and others' if owners else ''}: prepare the model with or before it, and put parts that train together into one module"
            )
        if any(engine.model is owners[0] for engine in self.engines):
            raise ValueError(
                f"{type(owners[0]).__name__} has an optimizer already: under DeepSpeed a model has one, with several parameter groups"
            )
        return owners[0]

    def _config(self, model: nn.Module) -> dict[str, Any]:
        config = getattr(model, "config", None)
        config = getattr(config, "text_config", config)
        self.plugin.deepspeed_config = filled(
            self.plugin,
            processes=self.world.size,
            steps=self.settings.steps(),
            micro_batch=self.settings.micro_batch(),
            precision=self.settings.precision,
            exact=self.settings.exact,
            hidden=getattr(config, "hidden_size", None),
        )
        return self.plugin.deepspeed_config

    def backward(self, loss: torch.Tensor, **kwargs: Any) -> None:
        """The backward of the engine whose weights `loss` was computed from.

        Raises:
            ValueError: second-order gradients; a loss that trains several models.
        """
        if kwargs.get("create_graph") or kwargs.get("inputs") is not None:
            raise ValueError(
                "DeepSpeed's backward takes neither create_graph=True nor inputs: train data parallel or with FSDP"
            )
        seed = kwargs.get("gradient")
        if seed is not None:
            loss = (loss * seed).sum()
        self._engine_of(loss).backward(loss, self._boundary, bool(kwargs.get("retain_graph")))

    def _engine_of(self, loss: torch.Tensor) -> Engine:
        if len(self.engines) == 1:
            return self.engines[0]
        reached = states.reached(loss)
        found = [engine for engine in self.engines if reached & engine.identities]
        if len(found) != 1:
            raise ValueError(
                f"the loss trains {len(found)} models that have an optimizer: under DeepSpeed a backward trains one prepared model and optimizer"
            )
        return found[0]

    def no_sync(self) -> AbstractContextManager[None]:
        return self._synchronized(False)

    def sync(self) -> AbstractContextManager[None]:
        return self._synchronized(True)

    def join(self) -> None:
        return None

    @contextlib.contextmanager
    def _synchronized(self, enabled: bool) -> Iterator[None]:
        before, self._boundary = self._boundary, enabled
        try:
            yield
        finally:
            self._boundary = before

    @contextlib.contextmanager
    def without_nan(self) -> Iterator[None]:
        trained = (p for engine in self.engines for p in engine.model.parameters() if p.requires_grad)
        handles = [p.register_hook(_zero_for_nan) for p in trained]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def clip_grad_norm(
        self, parameters: Iterable[torch.Tensor], max_norm: float, norm_type: float = 2.0
    ) -> torch.Tensor:
        if norm_type != 2.0:
            raise ValueError(f"norm_type is {norm_type}: DeepSpeed clips by the norm of type 2")
        wanted = {id(p) for p in parameters}
        found = [engine for engine in self.engines if wanted & engine.identities]
        if len(found) != 1:
            raise ValueError(
                "clip_grad_norm_ under DeepSpeed takes the parameters of one prepared model that has an optimizer"
            )
        return found[0].clip(max_norm)

    def clip_grad_value(self, parameters: Iterable[torch.Tensor], clip_value: float) -> None:
        raise ValueError("DeepSpeed clips gradients by their norm only: use clip_grad_norm_")

    def groups(self, optimizer: torch.optim.Optimizer) -> list[list[torch.Tensor]]:
        engine = self._engine_with(optimizer)
        return super().groups(optimizer) if engine is None else engine.groups

    def state_dict(self, target: Any) -> dict[str, Any]:
        engine = self._engine_with(target)
        if engine is None:
            return super().state_dict(target)
        return states.model_state(engine.model) if target is engine.model else engine.optimizer_state()

    def sharded_state_dict(self, target: Any) -> dict[str, Any]:
        return self.state_dict(target)

    @property
    def gathers_states(self) -> bool:
        return True

    def load_state_dict(self, target: Any, state: dict[str, Any]) -> Any:
        return target.load_state_dict(state)

    def _engine_with(self, target: Any) -> Engine | None:
        return next((e for e in self.engines if target is e.model or target is e.script_optimizer), None)

    def release(self) -> None:
        for engine in self.engines:
            engine.release()
        self.models.clear()
        self.engines.clear()


class Engine:
    """DeepSpeed's engine of one model and its optimizer."""

    def __init__(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, config: dict[str, Any], world: World
    ) -> None:
        self.model = model
        self.script_optimizer = optimizer
        self.parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self.identities = {id(p) for p in self.parameters}
        self.groups = [[*group["params"]] for group in optimizer.param_groups]
        self.config = config
        known = optimizer.state_dict() if optimizer.state else None
        self._plain_step: Callable[..., Any] = optimizer.step
        self._stepping = False
        self._complete = False
        _refuse_numbers(model, config)
        package = _deepspeed(world)
        with _numbers_apart(model):
            self.engine = package.initialize(model=model, optimizer=optimizer, config=config, dist_init_required=False)[
                0
            ]
        self.zero = self.engine.optimizer
        self._put_in_place(optimizer)
        if known is not None:
            states.load_optimizer(self, known)

    def backward(self, loss: torch.Tensor, boundary: bool, retain_graph: bool) -> None:
        from deepspeed.runtime.utils import register_output_backward_hooks

        self._complete = boundary
        self.engine.set_gradient_accumulation_boundary(boundary)
        self.zero.clear_backward_seen_flag()
        # As the engine's own forward does with its outputs: here the loss may come from any method of the model.
        hooks = register_output_backward_hooks(loss, preprocess_once_fn=self.engine._backward_prologue)
        self.engine.backward(loss, retain_graph=retain_graph, scale_wrt_gas=False)
        del hooks

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """The engine's step; inside of it, the plain one of the script's optimizer."""
        if self._stepping:
            return self._plain_step()
        if closure is not None:
            raise ValueError("DeepSpeed steps without a closure: use another optimizer, or train data parallel")
        self._stepping = True
        try:
            self.engine.set_gradient_accumulation_boundary(True)
            self.engine.step()
        finally:
            self._stepping = False
            self.zero.clip_grad = self.config["gradient_clipping"]
        return None

    def clip(self, max_norm: float) -> torch.Tensor:
        """Let the next step clip; the norm of the gradients before, NaN in the middle of a window, where no process knows it."""
        if not self._complete:
            return torch.tensor(float("nan"))
        if max_norm != float("inf"):
            self.zero.clip_grad = max_norm
        return states.gradient_norm(self.zero)

    def optimizer_state(self) -> dict[str, Any]:
        return states.optimizer_state(self)

    def release(self) -> None:
        self.engine.destroy()

    def _put_in_place(self, optimizer: torch.optim.Optimizer) -> None:
        def step(_: Any, closure: Callable[[], Any] | None = None) -> Any:
            return self.step(closure)

        def zero_grad(_: Any, set_to_none: bool = True) -> None:
            self.zero.zero_grad()

        if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
            step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
        optimizer.step = types.MethodType(step, optimizer)  # type: ignore[method-assign]
        optimizer.zero_grad = types.MethodType(zero_grad, optimizer)  # type: ignore[method-assign]
        optimizer.load_state_dict = types.MethodType(lambda _, state: states.load_optimizer(self, state), optimizer)  # type: ignore[method-assign]
        self.model.load_state_dict = types.MethodType(  # type: ignore[method-assign]
            lambda _, state, strict=True, assign=False: states.load_model(self, state, strict), self.model
        )


def _refuse_numbers(model: nn.Module, config: dict[str, Any]) -> None:
    names = [name for name, p in model.named_parameters() if p.ndim == 0]
    if names and config["zero_optimization"]["stage"] == 3:
        raise ValueError(
            f"{names[0]} of {type(model).__name__} is a single number, which DeepSpeed's stage 3 fails to shard: give it one dimension, or use stage 2 or FSDP"
        )


@contextlib.contextmanager
def _numbers_apart(model: nn.Module) -> Iterator[None]:
    """DeepSpeed fails to send parameters that are single numbers; it leaves alone those marked as its own."""
    numbers = [p for p in model.parameters() if p.ndim == 0]
    _broadcast(list(numbers))
    for parameter in numbers:
        parameter.ds_optim_param = True  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for parameter in numbers:
            del parameter.ds_optim_param  # type: ignore[attr-defined]


def _deepspeed(world: World) -> Any:
    """The package; on a CPU without the extension which it would compile, since gloo does the same."""
    on_cpu = world.device.type == "cpu"
    if on_cpu:
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    os.environ.setdefault("LOCAL_RANK", str(world.local_rank))
    import deepspeed

    if on_cpu:
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    return deepspeed


def _zero_for_nan(gradient: torch.Tensor) -> torch.Tensor:
    return gradient.masked_fill(gradient.isnan(), 0)
