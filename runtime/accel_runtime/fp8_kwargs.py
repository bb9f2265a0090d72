"""Settings of "fp8" by Accelerate's names: one recipe that is offered, and those of libraries that are not used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .kwargs import KwargsHandler


@dataclass
class AORecipeKwargs(KwargsHandler):
    """How linear layers compute in float8, by torchao. Used with `mixed_precision="fp8"`, ignored without.

    Attributes:
        config: torchao's `Float8LinearConfig`, or the name of one of its recipes: "tensorwise", "rowwise" or
            "rowwise_with_gw_hp". None: torchao's defaults, with `pad_inner_dim`. Where the device does not multiply in
            float8, `emulate` is set.
        module_filter_func: called with each linear layer and its name in the model; whether it computes in float8. None: all but
            the first and the last whose two sizes are multiples of 16.
        pad_inner_dim: pad what the device could not multiply otherwise; only for `config=None`. None: True.
        enable_fsdp_float8_all_gather: accepted; sharded weights travel in their own type, with the same results.
        global_scales: in exact mode, take scales of activations and gradients over the whole batch instead of each process's part.
    """

    config: Any = None
    module_filter_func: Callable[[Any, str], bool] | None = None
    pad_inner_dim: bool | None = None
    enable_fsdp_float8_all_gather: bool | None = None
    global_scales: bool = True


class _NotOffered:
    """A recipe for a library that is not used: its scripts are told what there is."""

    library = ""

    def __init__(self, *args: Any, **settings: Any) -> None:
        raise ValueError(
            f"{type(self).__name__} is for {self.library}, which is not used: fp8 is computed by torchao; "
            "leave the recipe out, or hand over kwargs_handlers=[AORecipeKwargs()]"
        )


class TERecipeKwargs(_NotOffered):
    """Refused, with what is offered instead."""

    library = "Transformer Engine"


class MSAMPRecipeKwargs(_NotOffered):
    """Refused, with what is offered instead."""

    library = "MS-AMP"


class FP8RecipeKwargs(_NotOffered):
    """Refused, with what is offered instead."""

    library = "Transformer Engine or MS-AMP"
