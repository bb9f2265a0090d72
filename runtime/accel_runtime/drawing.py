"""Batch-shaped random draws: every process draws for the whole global batch and keeps its own rows.

So the processes do not all draw the same noise, and together they use the numbers which one process would have drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from .batches import Share, Tracker
from .rng import shared_device_generator
from .world import World


def draw_rows(world: World, tracker: Tracker, factory: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`factory(*args, **kwargs)`, where the local batch size in its arguments stands for the global one.

    The batch size is dimension 0 of a tensor argument, the first entry of a size given as a tuple or as `size=`, or the
    first integer (the last one for NumPy's distributions). Where it is no live batch's, the call is made as it stands.
    Of a permutation (`torch.randperm`) the entries in the places of this process's rows count from the whole batch's first row.
    """
    if world.size == 1:
        return factory(*args, **kwargs)
    owner = getattr(factory, "__self__", None)
    if isinstance(owner, torch.Tensor):
        return _draw_by_method(world, tracker, owner, factory.__name__, args, kwargs)
    if _draws_inside(factory, args, kwargs):
        from .drawing_inside import draw_inside

        with _shared_stream(world, [], {"device": world.device}):
            return draw_inside(world, tracker, factory, args, kwargs)
    place, rows = _find_rows(factory, args, kwargs)
    given = kwargs.get(place) if isinstance(place, str) else args[place] if place is not None else None
    share = None if rows is None else tracker.sized(rows, given if isinstance(given, torch.Tensor) else None)
    if share is None:
        return factory(*args, **kwargs)
    args, kwargs = _widen_all(place, share, args, kwargs)
    with _shared_stream(world, args, kwargs):
        drawn = factory(*args, **kwargs)
    return drawn[share.start : share.stop]


def _draws_inside(factory: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the factory makes more of its arguments than numbers: a distribution's sample, a softmax with gradients.

    So do rejection samplers, which use as many random numbers as the rates of all rows ask for.
    """
    sampler = getattr(factory, "__name__", "") in ("sample", "rsample") and isinstance(getattr(factory, "__self__", None), torch.distributions.Distribution)
    given = (*args, *kwargs.values())
    return sampler or factory in (torch.poisson, torch.binomial) or any(isinstance(v, torch.Tensor) and v.requires_grad for v in given)


def _draw_by_method(world: World, tracker: Tracker, tensor: torch.Tensor, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`tensor.name(*args)`: a draw for each row of `tensor`, or into them."""
    share = tracker.sized(tensor.shape[0], tensor) if tensor.ndim else None
    if share is None:
        return getattr(tensor, name)(*args, **kwargs)
    whole = _widen_tensor(tensor, share)
    with _shared_stream(world, [tensor], kwargs):
        rows = getattr(whole, name)(*args, **kwargs)[share.start : share.stop]
    return tensor.copy_(rows) if name.endswith("_") else rows


def _find_rows(factory: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int | str | None, int | None]:
    """Where the batch size stands among the arguments, and the batch size."""
    named: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
    for place, value in named:
        if isinstance(value, torch.Tensor) and value.ndim:
            return place, value.shape[0]
    for place, value in named:
        if isinstance(value, (tuple, list)) and value and isinstance(value[0], int):
            return place, value[0]
    if isinstance(kwargs.get("size"), int):
        return "size", kwargs["size"]
    integers = [(place, value) for place, value in enumerate(args) if isinstance(value, int)]
    if not integers:
        return None, None
    return integers[-1] if _size_comes_last(factory) else integers[0]


def _size_comes_last(factory: Callable[..., Any]) -> bool:
    """NumPy's distributions end in the size; its `rand` and `randn` take dimensions, as torch does."""
    owner = type(getattr(factory, "__self__", None)).__module__
    return owner.startswith("numpy") and getattr(factory, "__name__", "") not in ("rand", "randn")


def _widen_all(place: int | str | None, share: Share, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    def widen(at: int | str, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.ndim and value.shape[0] == share.local:
            return _widen_tensor(value, share)
        if at != place:
            return value
        return (share.total, *value[1:]) if isinstance(value, (tuple, list)) else share.total

    return [widen(at, value) for at, value in enumerate(args)], {at: widen(at, value) for at, value in kwargs.items()}


def _widen_tensor(tensor: torch.Tensor, share: Share) -> torch.Tensor:
    """A tensor of the global batch which has this process's rows in their place; the others hold valid values."""
    whole = tensor.detach()[:1].repeat(share.total, *(1,) * (tensor.ndim - 1))
    whole[share.start : share.stop] = tensor.detach()
    return whole


@contextmanager
def _shared_stream(world: World, args: list[Any], kwargs: dict[str, Any]) -> Iterator[None]:
    """Draw from the device's shared generator, where the default one differs between processes."""
    device = torch.device(kwargs.get("device") or next((a.device for a in args if isinstance(a, torch.Tensor)), torch.get_default_device()))
    generator = None if kwargs.get("generator") is not None else shared_device_generator(world, device)
    if generator is None:
        yield
        return
    own = torch.cuda.get_rng_state(device)
    torch.cuda.set_rng_state(generator.get_state(), device)
    try:
        yield
        generator.set_state(torch.cuda.get_rng_state(device))
    finally:
        torch.cuda.set_rng_state(own, device)
