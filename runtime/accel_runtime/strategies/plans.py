"""How the layers of a model are split over processes: by a plan of names, or by the usual names of attention and MLP layers.

A layer split by columns computes a part of its outputs, one split by rows takes such a part and adds up over the processes.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from ..nested import leaves
from . import sequence_split, transposed

_USUAL: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("q_proj", "k_proj", "v_proj"), ("o_proj", "out_proj")),
    (("wq", "wk", "wv"), ("wo",)),
    (("gate_proj", "up_proj"), ("down_proj",)),
    (("up_proj",), ("down_proj",)),
    (("fc1",), ("fc2",)),
    (("c_fc",), ("c_proj",)),
    (("w1", "w3"), ("w2",)),
    (("w1",), ("w2",)),
    (("wi",), ("wo",)),
    (("linear1",), ("linear2",)),
    (("lin1",), ("lin2",)),
)
"""Layers beside each other in a module: those split by columns, and the one split by rows that follows."""
_OF_HEADS = "replicated_with_grad_allreduce"
"""Whole weights that each process applies to its own heads, such as norms of queries and keys."""
STYLES = (
    "colwise",
    "rowwise",
    "colwise_rep",
    "colwise_gather_output",
    "rowwise_rep",
    "rowwise_split_input",
    "embedding_rowwise",
    "replicate",
    "replicated",
    _OF_HEADS,
    sequence_split.STYLE,
)


def choose(model: nn.Module, mesh: Any, plan: dict[str, str] | None) -> dict[str, str]:
    """Module name -> style, for each layer of `model` that is to be split.

    Raises:
        ValueError: an unknown style, a name that no layer has, nothing to split.
    """
    own = _own_plan(model)
    chosen = _by_pattern(model, plan or own, strict=bool(plan)) if plan or own else dict(_found(model, mesh))
    chosen = _adapted(model, {name: style for name, style in chosen.items() if style not in ("replicate", "replicated")})
    if not chosen:
        raise ValueError(
            f"tensor parallelism finds no layers of {type(model).__name__} to split: name them, "
            "ParallelismConfig(tp_plan={'layers.*.attention.q_proj': 'colwise', ...})"
        )
    return chosen


def split(model: nn.Module, mesh: Any, chosen: dict[str, str], sequences: bool) -> None:
    """Split the layers in place, and between them the sequences, if they are to be or a style says so."""
    of_heads = [name for name, style in chosen.items() if style == _OF_HEADS]
    chosen = {name: style for name, style in chosen.items() if style != _OF_HEADS}
    if sequences or sequence_split.STYLE in chosen.values():  # which sums the gradients of all norms
        chosen = sequence_split.apply(model, mesh, chosen, lambda module, styles: apply(module, mesh, styles))
    else:
        for name in of_heads:
            sequence_split.share_gradients(model.get_submodule(name), mesh.get_group())
    apply(model, mesh, chosen)


def apply(model: nn.Module, mesh: Any, chosen: dict[str, str]) -> None:
    """Split the layers in place."""
    from torch.distributed.tensor.parallel import parallelize_module

    for name, style in chosen.items():
        _check_divides(name, model.get_submodule(name), style, mesh.size())
    parallelize_module(model, mesh, {name: _style_for(model.get_submodule(name), style) for name, style in chosen.items()})


def _own_plan(model: nn.Module) -> dict[str, str] | None:
    """The model's plan, or that of the model inside it which adapters have wrapped, with names as they are from here."""
    for prefix, module in model.named_modules():
        is_own = "_tp_plan" in vars(module) or hasattr(
            type(module), "_tp_plan"
        )  # wrappers answer with what is inside them
        if is_own and (plan := module._tp_plan):
            return {f"{prefix}.{pattern}" if prefix else pattern: style for pattern, style in plan.items()}
    return None


def _adapted(model: nn.Module, chosen: dict[str, str]) -> dict[str, str]:
    """A layer with low-rank adapters beside it, as PEFT makes them, is split in all its parts.

    By columns, the second adapter matrix is split like the layer; by rows, the first, which takes a part of the inputs.
    """
    split: dict[str, str] = {}
    for name, style in chosen.items():
        module = model.get_submodule(name)
        if not (hasattr(module, "base_layer") and hasattr(module, "lora_A") and hasattr(module, "lora_B")):
            split[name] = style
            continue
        split[f"{name}.base_layer"] = style
        part = "lora_B" if style.startswith("colwise") else "lora_A"
        split |= {f"{name}.{part}.{adapter}": style for adapter in getattr(module, part)}
    return split


def _by_pattern(model: nn.Module, plan: dict[str, str], strict: bool) -> dict[str, str]:
    chosen: dict[str, str] = {}
    shared = _shared(model)
    for pattern, style in plan.items():
        if style not in STYLES:
            raise ValueError(f"tp_plan: {pattern!r} is {style!r}: it must be one of {', '.join(map(repr, STYLES))}")
        expression = re.compile(re.escape(pattern).replace(r"\*", "[^.]+"))
        matches = [name for name, module in model.named_modules() if expression.fullmatch(name)]
        if strict and not matches:
            raise ValueError(f"tp_plan: no layer of {type(model).__name__} is named {pattern!r}")
        chosen |= {
            name: style for name in matches if not shared & {id(p) for p in model.get_submodule(name).parameters()}
        }
    return chosen


def _found(model: nn.Module, mesh: Any) -> Iterator[tuple[str, str]]:
    """Layers with the usual names, if their module computes the same when they are split."""
    shared = _shared(model)
    for prefix, owner in model.named_modules():
        taken: set[str] = set()
        for columns, rows in _USUAL:
            row = next((name for name in rows if name in owner._modules), None)
            names = {*columns, row} if row else set()
            if not names or names & taken or not all(_splittable(owner._modules.get(name), shared) for name in names):
                continue
            styles = {name: "rowwise" if name == row else "colwise" for name in (*columns, row)}
            if _computes_the_same(owner, styles, mesh):
                taken |= names
                yield from ((f"{prefix}.{name}" if prefix else name, style) for name, style in styles.items())


def _splittable(module: nn.Module | None, shared: set[int]) -> bool:
    return (type(module) is nn.Linear or transposed.is_transposed(module)) and not shared & {id(p) for p in module.parameters()}


@torch.no_grad()
def _computes_the_same(owner: nn.Module, styles: dict[str, str], mesh: Any) -> bool:
    """Try it on a copy: code that counts on all heads or channels being here would compute something else.

    A module that cannot be called with one tensor is not tried, and not split.
    """
    first: nn.Module = owner._modules[next(iter(styles))]  # type: ignore[assignment]
    inputs, _ = transposed.sizes(first)  # type: ignore[misc]
    sizes = [transposed.sizes(owner._modules[name])[1] for name, style in styles.items() if style == "colwise"]  # type: ignore[arg-type, index]
    if any(size % mesh.size() for size in sizes):
        return False
    weight = first.weight
    x = torch.randn(2, 4, inputs, generator=torch.Generator().manual_seed(0)).to(weight.device, weight.dtype)
    split = copy.deepcopy(owner).eval()
    fits = torch.zeros(1, device=weight.device)
    with torch.random.fork_rng(devices=[]):
        try:
            expected = list(leaves(copy.deepcopy(split)(x)))
            apply(split, mesh, styles)
            got = list(leaves(split(x)))
            same = all(torch.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in zip(got, expected, strict=True))
            fits.fill_(float(same and bool(expected)))
        except Exception:  # whatever the module cannot do with this input: it stays whole
            pass
    dist.all_reduce(fits, dist.ReduceOp.MIN)
    return bool(fits.item())


def _shared(model: nn.Module) -> set[int]:
    """Weights that several modules hold: splitting one of these would part them."""
    seen: dict[int, int] = {}
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            seen[id(parameter)] = seen.get(id(parameter), 0) + 1
    return {key for key, count in seen.items() if count > 1}


def _check_divides(name: str, module: nn.Module, style: str, size: int) -> None:
    features = transposed.sizes(module)
    width = features and features[style.startswith("colwise")]
    if width is not None and width % size:
        raise ValueError(
            f"{name} has {width} features and cannot be split ({style}) over tp_size {size}: choose a size that divides them"
        )


def _style_for(module: nn.Module, name: str) -> Any:
    return transposed.style(_style(name)) if transposed.is_transposed(module) else _style(name)


def _style(name: str) -> Any:
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    if name == "colwise":
        return ColwiseParallel()
    if name in ("colwise_part", "rowwise_part"):
        return ColwiseParallel(input_layouts=Shard(1)) if name == "colwise_part" else RowwiseParallel(output_layouts=Shard(1))
    if name.startswith("colwise"):
        return ColwiseParallel(output_layouts=Replicate())
    return RowwiseParallel() if name == "rowwise" else RowwiseParallel(input_layouts=Replicate())
