"""Sequence parallelism inside tensor parallelism: between the split layers of a block, each process has a part of the tokens.

Norms, dropout and additions then cost each process a part of the memory and the time. Layers split by columns gather the tokens,
those split by rows scatter their sums: "Reducing Activation Recomputation in Large Transformer Models" (arXiv:2205.05198). Before
the first block and after the last one all processes have all tokens.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from ..collectives import all_gather_into
from ..nested import leaves
from . import transposed, units

STYLE = "sequence_parallel"
Split = Callable[[nn.Module, dict[str, str]], None]


def apply(model: nn.Module, mesh: Any, chosen: dict[str, str], split: Split) -> dict[str, str]:
    """Prepare the blocks of `model`, in place; the style of each layer as it has to be split for that.

    Args:
        chosen: module name -> style, `sequence_parallel` for modules that compute token by token.
        split: splits a module by such names.

    Raises:
        ValueError: no blocks that repeat, something in them that needs whole sequences, blocks that would compute something else.
    """
    blocks = _blocks(model)
    tried: set[type] = set()
    for name, block in blocks.items():
        styles = {
            layer.removeprefix(f"{name}."): style for layer, style in chosen.items() if layer.startswith(f"{name}.")
        }
        _check_parts(model, name, block, styles)
        if type(block) not in tried:
            _check_computes_the_same(name, block, mesh, styles, split)
            tried.add(type(block))
        changed = _prepare(block, mesh, styles)
        chosen = {**chosen, **{f"{name}.{layer}": style for layer, style in changed.items()}}
    inside = tuple(f"{name}." for name in blocks)
    outside = [name for name, style in chosen.items() if style == STYLE and not name.startswith(inside)]
    if outside:
        raise ValueError(f"tp_plan: {outside[0]!r} is {STYLE!r} and stands in no block that repeats: leave it out")
    modules = list(blocks.values())
    _cut_before(modules[0], mesh)
    _join_after(modules[-1], mesh)
    return {name: style for name, style in chosen.items() if style != STYLE}


def _blocks(model: nn.Module) -> dict[str, nn.Module]:
    kinds = set(getattr(model, "_no_split_modules", None) or ())
    found = [m for m in model.modules() if type(m).__name__ in kinds] or units.repeated_blocks(model)
    if not found:
        raise ValueError(f"sequence_parallel finds no blocks that repeat in {type(model).__name__}: leave it out")
    return {name: module for name, module in model.named_modules() if any(module is block for block in found)}


def _by_token(module: nn.Module) -> bool:
    kind = type(module).__name__
    return "Norm" in kind and not kind.startswith(("Batch", "Instance", "Group", "SyncBatch"))


def _check_parts(model: nn.Module, name: str, block: nn.Module, styles: dict[str, str]) -> None:
    for part, module in block.named_modules():
        held = next(iter(module.parameters(recurse=False)), None)
        if held is not None and part not in styles and not _by_token(module):
            raise ValueError(
                f"sequence_parallel: {name}.{part} ({type(module).__name__}) of {type(model).__name__} is neither split nor a norm: give it a "
                f"style in tp_plan, {STYLE!r} if it computes token by token, or leave sequence_parallel out"
            )


def _prepare(block: nn.Module, mesh: Any, styles: dict[str, str]) -> dict[str, str]:
    """Hooks on the parts of a block; the styles that its layers then have."""
    group, owners = (
        mesh.get_group(),
        {layer.rpartition(".")[0] for layer, style in styles.items() if style == "colwise"},
    )
    for owner in owners - {""}:
        block.get_submodule(owner).register_forward_pre_hook(_gathering(mesh), with_kwargs=True)
    for part, module in block.named_modules():
        if styles.get(part) == STYLE or (part not in styles and _by_token(module)):
            share_gradients(module, group)
    changed = {"colwise": "colwise_part", "rowwise": "rowwise_part"}
    return {
        layer: changed[style]
        for layer, style in styles.items()
        if style in changed and (style == "rowwise" or not layer.rpartition(".")[0])
    }


@torch.no_grad()
def _check_computes_the_same(name: str, block: nn.Module, mesh: Any, styles: dict[str, str], split: Split) -> None:
    """Try it on a copy, if the block can be called with one tensor."""
    width = next((transposed.sizes(block.get_submodule(n)) for n, style in styles.items() if style == "colwise"), None)
    if width is None:
        return
    weight = next(block.parameters())
    x = torch.randn(2, 2 * mesh.size(), width[0], generator=torch.Generator().manual_seed(0)).to(
        weight.device, weight.dtype
    )
    whole = copy.deepcopy(block).eval()
    with torch.random.fork_rng(devices=[]):
        try:
            expected = list(leaves(copy.deepcopy(whole)(x)))
        except Exception:  # it wants more than one tensor
            return
        try:
            split(whole, {**{n: s for n, s in styles.items() if s != STYLE}, **_prepare(whole, mesh, styles)})
            got = list(leaves(whole(_part(x, mesh))))
            same = bool(expected) and torch.allclose(
                _joined(got[0], mesh.get_group()), expected[0], rtol=1e-3, atol=1e-4
            )
        except (RuntimeError, ValueError, TypeError):
            same = False
    if not same:
        raise ValueError(
            f"sequence_parallel: {name} ({type(block).__name__}) computes something else from a part of the tokens: let its attention be a module "
            "of its own, whose input is then whole, or leave sequence_parallel out"
        )


def _part(x: torch.Tensor, mesh: Any) -> torch.Tensor:
    if x.shape[1] % mesh.size():
        raise ValueError(
            f"the sequences have {x.shape[1]} tokens, and sequence_parallel needs a multiple of tp_size {mesh.size()}: pad them"
        )
    return x.chunk(mesh.size(), 1)[mesh.get_local_rank()].contiguous()


def _joined(part: torch.Tensor, group: Any) -> torch.Tensor:
    """`[batch, local, width]` of all processes, `[batch, total, width]`."""
    size = dist.get_world_size(group)
    flat = part.new_empty(size * part.numel())
    all_gather_into(flat, part.contiguous().flatten(), group=group)
    return torch.cat(flat.view(size, *part.shape).unbind(0), 1)


class _Cut(torch.autograd.Function):
    """This process's part of what all have; they all get the whole gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, mesh: Any) -> torch.Tensor:
        ctx.group = mesh.get_group()
        return _part(x, mesh)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:  # type: ignore[override]
        return _joined(gradient, ctx.group), None


class _Join(torch.autograd.Function):
    """The whole of which each process has a part; all compute the same from it."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, mesh: Any) -> torch.Tensor:
        ctx.mesh = mesh
        return _joined(x, mesh.get_group())

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:  # type: ignore[override]
        return _part(gradient, ctx.mesh), None


class _Summed(torch.autograd.Function):
    """A parameter that each process applies to other tokens: its gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, parameter: torch.Tensor, group: Any) -> torch.Tensor:
        ctx.group = group
        return parameter.view_as(parameter)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:  # type: ignore[override]
        gradient = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(gradient, group=ctx.group)
        return gradient, None


def share_gradients(module: nn.Module, group: Any) -> None:
    """Sum the gradients of `module` over the processes of `group`, each of which applies it to something else."""
    plain = module.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        summed = {name: _Summed.apply(parameter, group) for name, parameter in module.named_parameters()}
        with nn.utils.stateless._reparametrize_module(module, summed):
            return plain(*args, **kwargs)

    module.forward = functools.wraps(plain)(forward)  # type: ignore[method-assign]


Inputs = tuple[tuple[Any, ...], dict[str, Any]]


def _hidden(args: tuple[Any, ...], kwargs: dict[str, Any], change: Callable[[torch.Tensor], Any]) -> Inputs:
    """The inputs with the tokens' features changed: the first tensor of three dimensions."""
    for place, value in enumerate(args):
        if isinstance(value, torch.Tensor) and value.ndim == 3:
            return (*args[:place], change(value), *args[place + 1 :]), kwargs
    for name, value in kwargs.items():
        if isinstance(value, torch.Tensor) and value.ndim == 3:
            return args, {**kwargs, name: change(value)}
    raise ValueError(
        "sequence_parallel: a block is called without features of tokens, [batch, tokens, features]: leave it out"
    )


def _cut_before(block: nn.Module, mesh: Any) -> None:
    """In its forward, not in a hook: recomputed activations begin with the inputs of either all hooks or none."""
    plain = block.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = _hidden(args, kwargs, lambda x: _Cut.apply(x, mesh))
        return plain(*args, **kwargs)

    block.forward = functools.wraps(plain)(forward)  # type: ignore[method-assign]


def _join_after(block: nn.Module, mesh: Any) -> None:
    plain = block.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        output = plain(*args, **kwargs)
        if isinstance(output, tuple):
            return (_Join.apply(output[0], mesh), *output[1:])
        return _Join.apply(output, mesh)

    block.forward = functools.wraps(plain)(forward)  # type: ignore[method-assign]


def _gathering(mesh: Any) -> Callable[..., Inputs]:
    from torch.distributed.tensor import DTensor, Replicate, Shard

    def gathered(x: torch.Tensor) -> Any:
        return DTensor.from_local(x, mesh, [Shard(1)], run_check=False).redistribute(placements=[Replicate()])

    return lambda module, args, kwargs: _hidden(args, kwargs, gathered)
