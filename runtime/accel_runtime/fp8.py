"""Linear layers that compute in float8, in place, through torchao: same objects, same class, same weights, same keys.

A layer computes in float8 inside the autocast region, and as ever outside of it. Its weights stay in their own type; input, weight
and the gradient of the output are rounded to eight bits where they are multiplied, each by a scale that its largest value fixes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import logging
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch._compile import _disable_dynamo

from .batches import Tracker
from .collectives import all_reduce
from .fp8_kwargs import AORecipeKwargs
from .precision import ReplacedForward
from .world import World

_SIDES = 16
"""What the sizes of a layer have to be multiples of, for devices that multiply in float8."""


class Float8:
    """Computes linear layers in float8.

    Attributes:
        config: torchao's `Float8LinearConfig`.
        session: the processes over whose rows scales are taken, and the batches in use; None: over each process's own.
        announce: whether this process warns.
    """

    def __init__(
        self,
        recipe: AORecipeKwargs,
        device: torch.device,
        session: tuple[World, Tracker] | None = None,
        announce: bool = True,
    ) -> None:
        import_torchao()
        self.announce = announce
        self.filter = recipe.module_filter_func
        self.config = _config(recipe, emulate=not multiplies_in_float8(device))
        self.session = session if recipe.global_scales else None
        self.multiplication = _multiplication(self.config)

    def convert(self, model: nn.Module) -> None:
        """Let the linear layers of `model` that the recipe chooses compute in float8."""
        chosen = [layer for name, layer in _candidates(model) if (self.filter or _default_filter(model))(layer, name)]
        for layer in chosen:
            if not isinstance(layer.__dict__.get("forward"), Float8Forward):
                layer.forward = Float8Forward(layer, self)  # type: ignore[method-assign]
        if not chosen and self.announce:
            warnings.warn(
                f"mixed_precision='fp8': no linear layer of {type(model).__name__} computes in float8, all are in bfloat16: "
                f"the first and the last are left out, and those whose sizes are not multiples of {_SIDES} "
                "(AORecipeKwargs(module_filter_func=...) chooses others)",
                stacklevel=4,
            )

    def linear(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """`x @ weight.T + bias`, of shape [..., out], in the type of `x`."""
        y = self._multiply(x, weight.t())
        return y if bias is None else y + bias.to(y.dtype)

    def _multiply(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        from torchao.float8.float8_linear import matmul_with_hp_or_float8_args as product

        in_parts = hasattr(weight, "placements")  # split by tensor parallelism
        if self.session is None or in_parts or not torch.is_grad_enabled():
            return product.apply(x, weight, self.multiplication, self.config)
        config = self.config
        if _per_tensor(config.cast_config_input, config.cast_config_input_for_grad_weight):
            x = self._rounded(x, config.cast_config_input.target_dtype, "INPUT")
        y = product.apply(x, weight, self.multiplication, config)
        if _per_tensor(config.cast_config_grad_output, config.cast_config_grad_output_for_grad_weight):
            y = _RoundedGradient.apply(y, self)
        return y

    @_disable_dynamo
    def _rounded(self, x: torch.Tensor, dtype: torch.dtype, role: str) -> torch.Tensor:
        """`x` in float8 with one scale, which the largest value on any process fixes; its gradient passes through."""
        from torchao.float8.float8_training_tensor import GemmInputRole, hp_tensor_and_scale_to_float8
        from torchao.float8.float8_utils import amax_to_scale

        assert self.session is not None
        world, tracker = self.session
        largest = x.detach().abs().max()
        if tracker.at_zero:  # zero times infinity must not reach the other processes' scales
            largest = torch.zeros_like(largest)
        largest = all_reduce(world, largest, dist.ReduceOp.MAX)
        scale = amax_to_scale(largest, dtype, self.config.round_scales_to_power_of_2)
        return hp_tensor_and_scale_to_float8(x, scale, dtype, self.multiplication, GemmInputRole[role])


class _RoundedGradient(torch.autograd.Function):
    """Does nothing forward; backward it rounds the gradient to float8 with the scale of the whole batch."""

    @staticmethod
    def forward(ctx: Any, y: torch.Tensor, float8: Float8) -> torch.Tensor:
        ctx.float8 = float8
        return y.view_as(y)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        dtype = ctx.float8.config.cast_config_grad_output.target_dtype
        return ctx.float8._rounded(gradient, dtype, "GRAD_OUTPUT"), None


class Float8Forward(ReplacedForward):
    """A linear layer's forward in float8, inside the autocast region."""

    def __init__(self, layer: nn.Linear, float8: Float8) -> None:
        super().__init__(layer)
        self.float8 = float8

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        kind = x.device.type
        if not torch.is_autocast_enabled(kind):
            return self.plain(x)
        return self.float8.linear(x.to(torch.get_autocast_dtype(kind)), self.module.weight, self.module.bias)


def is_available() -> bool:
    """Whether torchao is installed."""
    return importlib.util.find_spec("torchao") is not None


def multiplies_in_float8(device: torch.device) -> bool:
    """Whether the device has instructions for it: NVIDIA from compute capability 8.9 on, AMD from gfx942 on."""
    if device.type != "cuda":
        return False
    return torch.cuda.get_device_capability(device) >= ((9, 4) if torch.version.hip else (8, 9))


def _config(recipe: AORecipeKwargs, emulate: bool) -> Any:
    from torchao.float8 import Float8LinearConfig

    config = recipe.config
    if config is None:
        config = Float8LinearConfig(pad_inner_dim=recipe.pad_inner_dim is not False)
    elif isinstance(config, str):
        config = _named(config)
    elif not isinstance(config, Float8LinearConfig):
        raise ValueError(
            f"AORecipeKwargs(config=...) is a {type(config).__name__}: it must be torchao's Float8LinearConfig, or a recipe's name"
        )
    return dataclasses.replace(config, emulate=True) if emulate and not config.emulate else config


def _named(name: str) -> Any:
    from torchao.float8 import Float8LinearConfig
    from torchao.float8.config import Float8LinearRecipeName

    names = [recipe.value for recipe in Float8LinearRecipeName]
    if name not in names:
        raise ValueError(
            f"AORecipeKwargs(config={name!r}): it must be one of {', '.join(map(repr, names))}, or torchao's Float8LinearConfig"
        )
    return Float8LinearConfig.from_recipe_name(name)


def _multiplication(config: Any) -> Any:
    """How each of the three products of a layer is computed, in torchao's form."""
    from torchao.float8.float8_training_tensor import LinearMMConfig, ScaledMMConfig

    fast = (config.gemm_config_output, config.gemm_config_grad_input, config.gemm_config_grad_weight)
    return LinearMMConfig(
        *(ScaledMMConfig(config.emulate, each.use_fast_accum, False, config.pad_inner_dim) for each in fast)
    )


def _per_tensor(cast: Any, again: Any) -> bool:
    """Whether one scale for the whole tensor serves both products that it is in."""
    return cast == again and cast.scaling_type.name == "DYNAMIC" and cast.scaling_granularity.name == "TENSORWISE"


def _candidates(model: nn.Module) -> Iterator[tuple[str, nn.Linear]]:
    """Layers that compute what `nn.Linear` does; names are those in `model`."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and type(module).forward is nn.Linear.forward:
            yield name, module


def _default_filter(model: nn.Module) -> Callable[[nn.Linear, str], bool]:
    names = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    kept = {*names[:1], *names[-1:]}
    return lambda layer, name: name not in kept and layer.in_features % _SIDES == 0 and layer.out_features % _SIDES == 0


def import_torchao() -> None:
    """Import it without its remarks on libraries of devices that are not there.

    Raises:
        ImportError: it is not installed, or does not train in float8.
    """
    if not is_available():
        raise ImportError("mixed_precision='fp8' needs torchao; install it with: pip install torchao")
    with _quiet("torchao"), _quiet("torch.utils._pytree"):
        try:
            import torchao.float8.float8_linear
            import torchao.float8.float8_training_tensor  # noqa: F401
        except ImportError as error:
            raise ImportError(
                f"mixed_precision='fp8': this torchao does not fit ({error}); install a later one with: pip install -U torchao"
            ) from error


@contextlib.contextmanager
def _quiet(name: str) -> Iterator[None]:
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
