"""Fully sharded data parallel training, in place: every process keeps a part of each weight, its gradient and its optimizer state.

`torch.distributed.fsdp.fully_shard` does the sharding. The model stays the same object; its class becomes a subclass of
its own. Parameters become DTensors under their old names; optimizers made before follow when they are prepared.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn

from ..plugins import FullyShardedDataParallelPlugin
from ..world import World
from . import fsdp_versions, placing, policies, sequence_models, sharded, states, units
from .ddp import DataParallel, _broadcast, _sparse_parameters
from .mesh import arrange, data_part, data_world
from .replaced import Replaced
from .sequences import Sequences
from .settings import Settings
from .sharded_model import ShardedModel, forget_local_gradients


class FullySharded(DataParallel):
    """Weights are sharded over the processes, and gathered unit by unit while they compute.

    Parameters that cannot be sharded (single numbers, weights with sparse gradients, `ignored_modules`) are replicated, and
    their gradients averaged, as in data parallel training.
    """

    name = "FSDP"

    def __init__(self, world: World, settings: Settings) -> None:
        fsdp_versions.check()
        super().__init__(world, settings)
        self.plugin = settings.fsdp or self._default_plugin()
        self.whole_mesh = arrange(world, *self._sizes())
        self.mesh = data_part(self.whole_mesh)
        self.data_world = self.loss_world = data_world(world, self.whole_mesh) if "tp" in self.whole_mesh.mesh_dim_names else world
        self.weights_world = self.data_world
        """The processes among which weights are sharded or copied."""
        if settings.parallelism is not None and settings.parallelism.cp_enabled:
            self.sequences = Sequences(world, settings.parallelism.cp_size, settings.parallelism.tp_size)  # type: ignore[arg-type]
            self.data_world, self.loss_world = self.sequences.batches, self.sequences.losses
        self.models: list[ShardedModel] = []
        self.replaced = Replaced()

    @classmethod
    def suits(cls, world: World, settings: Settings) -> bool:
        by_sizes = settings.parallelism is not None and settings.parallelism.dp_shard_enabled
        return world.size > 1 and (settings.fsdp is not None or by_sizes)

    def _default_plugin(self) -> FullyShardedDataParallelPlugin:
        return FullyShardedDataParallelPlugin()

    def _sizes(self) -> tuple[int, ...]:
        """Copies of the weights, processes that share one, and processes that compute each layer together."""
        sizes = self.settings.parallelism
        if sizes is not None and sizes.total_size > 1:
            sizes.check(self.world.size)
            return sizes.dp_replicate_size, sizes.dp_shard_size * sizes.cp_size, sizes.tp_size  # type: ignore[operator, return-value]
        if self.plugin.sharding_strategy == "NO_SHARD":
            return self.world.size, 1
        if self.plugin.hybrid:
            return self.world.size // self.world.local_size, self.world.local_size
        return 1, self.world.size

    def place(self, model: nn.Module, device: torch.device) -> nn.Module:
        """Nothing yet: each unit is brought to the device when it is sharded, so no process holds all of them there."""
        return model

    def prepare_model(self, model: nn.Module) -> nn.Module:
        self.refuse_sharded_weights(model)
        return self._shard_model(model)

    def _shard_model(self, model: nn.Module) -> nn.Module:
        _give_forward(model)
        if self.sequences is not None:
            sequence_models.join(self.sequences, model)
        parts = units.choose(model, self.plugin)
        apart = self._apart(model)
        if self.plugin.activation_checkpointing:
            self.checkpoint_activations(model)
        done: list[nn.Module] = []
        for unit in [*parts, model]:
            self._bring(unit, done, apart)
            with self.replaced.following(unit, done):
                self._shard(unit, apart, is_root=unit is model)
            done.append(unit)
        self.models.append(ShardedModel(model, done, self.world.device))
        return super().prepare_model(model) if apart else model

    def refuse_sharded_weights(self, model: nn.Module) -> None:
        """Raise a ValueError if a weight of `model` is sharded already."""
        shared = next((name for name, p in model.named_parameters() if sharded.is_sharded(p)), None)
        if shared is not None:
            raise ValueError(
                f"{shared} of {type(model).__name__} is a part of another prepared model: sharded weights belong to one model; "
                "prepare one module that holds both, or share no weights, or train data parallel"
            )

    def checkpoint_activations(self, model: nn.Module) -> None:
        """Let blocks compute activations again in the backward; not where that would update running statistics twice."""
        from torch.distributed._composable import checkpoint

        blocks = units.choose(model, self.plugin) or units.repeated_blocks(model)
        if not blocks:
            raise ValueError(
                "activation_checkpointing finds no blocks that repeat in the model: name their classes by transformer_cls_names_to_wrap"
            )
        for block in blocks:
            if not any(hasattr(part, "running_mean") for part in block.modules()):
                checkpoint(block)

    def _apart(self, model: nn.Module) -> set[nn.Parameter]:
        ignored = units.ignored_parameters(model, self.plugin.ignored_modules)
        scalars = {p for p in model.parameters() if p.ndim == 0}
        return ignored | scalars | _sparse_parameters(model)  # type: ignore[return-value]

    @torch.no_grad()
    def _bring(self, unit: nn.Module, done: list[nn.Module], apart: set[nn.Parameter]) -> None:
        """Put the unit's weights, as the main process has them, on this process's device."""
        device = self.world.device
        if any(tensor.is_meta for _, _, tensor in units.owners(unit, done)):
            if self.world.is_main:
                placing.initialise(unit, device, self.plugin.param_init_fn, done)
            else:
                placing.allocate(unit, device, done)
        tensors = list({id(t): t for _, _, t in units.owners(unit, done)}.values())
        for tensor in tensors:
            if tensor.device != device:
                tensor.data = tensor.to(device)
        _broadcast([tensor for tensor in tensors if tensor not in apart and not sharded.is_sharded(tensor)])

    def _shard(self, unit: nn.Module, apart: set[nn.Parameter], is_root: bool) -> None:
        from torch.distributed.fsdp import CPUOffloadPolicy, OffloadPolicy, fully_shard

        # Without an accelerator, weights are in the host's memory anyway.
        offload = CPUOffloadPolicy() if self.plugin.cpu_offload and self.world.device.type != "cpu" else OffloadPolicy()
        options: dict[str, Any] = {"ignored_params": apart} if apart else {}
        if not (
            is_root and self.plugin.reshard_after_forward
        ):  # torch's default for the root: its weights are needed again at once
            options["reshard_after_forward"] = self.plugin.reshard_after_forward
        fully_shard(unit, mesh=self.mesh, mp_policy=policies.of(self.plugin.mixed_precision_policy, self.settings.low_precision), offload_policy=offload, **options)

    def _replicated(self, parameters: Iterable[torch.Tensor]) -> Iterable[torch.Tensor]:
        return [parameter for parameter in parameters if not sharded.is_sharded(parameter)]

    def prepare_optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        sharded.refuse_one_vector(optimizer)
        return super().prepare_optimizer(self._follow(optimizer))

    def _follow(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        """Let `optimizer` hold the sharded weights, and states like them."""
        self.replaced.update(optimizer)
        states.accept_whole_optimizer_states(optimizer)
        self._clear_local_gradients(optimizer)
        return optimizer

    def _clear_local_gradients(self, optimizer: torch.optim.Optimizer) -> None:
        """Let `zero_grad` reach what backwards without synchronization have left in the gathered parameters."""
        known = {key: parameter for model in self.models for key, parameter in model.by_sharded.items()}
        held = [known[id(p)] for group in optimizer.param_groups for p in group["params"] if id(p) in known]
        plain = optimizer.zero_grad

        def zero_grad(self: torch.optim.Optimizer, set_to_none: bool = True) -> None:
            plain(set_to_none)
            forget_local_gradients(held)

        if held:
            optimizer.zero_grad = types.MethodType(zero_grad, optimizer)  # type: ignore[method-assign]

    @contextlib.contextmanager
    def _synchronized(self, enabled: bool) -> Iterator[None]:
        before = self.reduction.enabled
        self._set_sync(enabled)
        try:
            with super()._synchronized(enabled):
                yield
        finally:
            self._set_sync(before)

    def _set_sync(self, enabled: bool) -> None:
        for model in self.models:
            model.set_sync(enabled)

    def join(self) -> None:
        return None

    @contextlib.contextmanager
    def without_nan(self) -> Iterator[None]:
        handles = [p.register_hook(_zero_for_nan) for model in self.models for p in model.gathered() if p.requires_grad]
        try:
            with super().without_nan():
                yield
        finally:
            for handle in handles:
                handle.remove()

    def adapt_scaler(self, scaler: torch.amp.GradScaler) -> None:
        sharded.unscale_everywhere(scaler)

    def clip_grad_norm(
        self, parameters: Iterable[torch.Tensor], max_norm: float, norm_type: float = 2.0
    ) -> torch.Tensor:
        return sharded.clip_grad_norm(parameters, max_norm, norm_type)

    def clip_grad_value(self, parameters: Iterable[torch.Tensor], clip_value: float) -> None:
        sharded.clip_grad_value(parameters, clip_value)

    def state_dict(self, target: Any) -> dict[str, Any]:
        return states.whole_state(target)

    def sharded_state_dict(self, target: Any) -> dict[str, Any]:
        return target.state_dict()

    @property
    def saves_whole(self) -> bool:
        return self.plugin.state_dict_type == "FULL_STATE_DICT"

    def release(self) -> None:
        super().release()
        self.models.clear()
        self.replaced.clear()


def _give_forward(model: nn.Module) -> None:
    """Containers whose parts are called one by one have no forward, which `fully_shard` insists on."""
    kind = type(model)
    if isinstance(model, (nn.ModuleList, nn.ModuleDict)) and kind.forward is nn.Module.forward:
        model.__class__ = type(
            kind.__name__, (kind,), {"forward": lambda self, *args: super(kind, self).forward(*args)}
        )


def _zero_for_nan(gradient: torch.Tensor) -> torch.Tensor:
    return gradient.masked_fill(gradient.isnan(), 0)
