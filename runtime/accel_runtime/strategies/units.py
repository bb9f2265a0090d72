"""Which modules of a model form a unit: its weights are gathered together, and its activations computed again together.

The rest of the model is a unit of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn

from ..plugins import FullyShardedDataParallelPlugin

_WITHOUT_FORWARD = (nn.ModuleList, nn.ModuleDict)


def choose(model: nn.Module, plugin: FullyShardedDataParallelPlugin) -> list[nn.Module]:
    """The units inside `model` by the plugin's policy, inner ones first.

    A module which shares a weight with the rest of the model is none: a weight belongs to one unit.

    Raises:
        ValueError: a class name that the model does not have.
    """
    found = list(_by_policy(model, plugin))
    chosen = [module for module in found if module is not model and _has_parameters(module)]
    return [module for module in reversed(chosen) if not _shares_weights(model, module)]


def repeated_blocks(model: nn.Module) -> list[nn.Module]:
    """The outermost modules that stand in a list or sequence next to another one of their class, and have parts of their own."""
    blocks: list[nn.Module] = []
    _collect_blocks(model, blocks)
    return blocks


def ignored_parameters(model: nn.Module, ignored: Iterable[Any] | str | None) -> set[nn.Parameter]:
    """The parameters of the modules in `ignored`; a string is a pattern for their whole names."""
    if isinstance(ignored, str):
        pattern = re.compile(ignored)
        ignored = [module for name, module in model.named_modules() if pattern.fullmatch(name)]
    return {parameter for module in ignored or () for parameter in module.parameters()}


def _by_policy(model: nn.Module, plugin: FullyShardedDataParallelPlugin) -> Iterable[nn.Module]:
    policy = plugin.auto_wrap_policy
    if callable(policy):
        return [
            module for module in model.modules() if policy(module=module, recurse=False, nonwrapped_numel=_size(module))
        ]
    if policy == "no_wrap":
        return []
    if policy == "size_based_wrap":
        return _by_size(model, plugin.min_num_params or 0)
    names = plugin.transformer_cls_names_to_wrap or getattr(model, "_no_split_modules", None)
    return _by_class(model, set(names)) if names else repeated_blocks(model)


def _by_class(model: nn.Module, names: set[str]) -> list[nn.Module]:
    chosen = [module for module in model.modules() if type(module).__name__ in names]
    if not chosen:
        there = sorted({type(module).__name__ for module in model.modules()})
        raise ValueError(
            f"transformer_cls_names_to_wrap is {sorted(names)} and the model has no such modules: it has {', '.join(there)}"
        )
    return chosen


def _by_size(model: nn.Module, least: int) -> list[nn.Module]:
    """Modules, outer ones first, which have at least `least` parameters outside of the chosen ones among their parts."""
    chosen: list[nn.Module] = []

    def visit(module: nn.Module) -> int:
        own = sum(p.numel() for p in module.parameters(recurse=False))
        opaque = isinstance(module, nn.MultiheadAttention)  # computes with its parts' weights by itself
        rest = own + sum(_size(child) if opaque else visit(child) for child in module.children())
        if rest < least or isinstance(module, _WITHOUT_FORWARD):
            return rest
        chosen.append(module)
        return 0

    visit(model)
    return chosen[::-1]


def _collect_blocks(module: nn.Module, blocks: list[nn.Module]) -> None:
    kinds = [type(child) for child in module.children()] if isinstance(module, (nn.ModuleList, nn.Sequential)) else []
    for child in module.children():
        if kinds.count(type(child)) > 1 and next(child.children(), None) is not None and _has_parameters(child):
            blocks.append(child)
        else:
            _collect_blocks(child, blocks)


def _has_parameters(module: nn.Module) -> bool:
    return next(module.parameters(), None) is not None and not isinstance(module, _WITHOUT_FORWARD)


def _shares_weights(model: nn.Module, module: nn.Module) -> bool:
    inside = set(module.modules())
    own = {id(p) for p in module.parameters()}
    return any(
        id(p) in own for other in model.modules() if other not in inside for p in other.parameters(recurse=False)
    )


def _size(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def owners(module: nn.Module, within: Iterable[nn.Module] = ()) -> Iterator[tuple[nn.Module, str, torch.Tensor]]:
    """Every place that holds a parameter or a buffer of `module`: the holder, the name there, and what is held.

    Places inside the modules of `within` are left out.
    """
    hidden = {inner for other in within for inner in other.modules()}
    for holder in module.modules():
        if holder in hidden:
            continue
        for table in (holder._parameters, holder._buffers):
            for name, tensor in list(table.items()):
                if tensor is not None:
                    yield holder, name, tensor
