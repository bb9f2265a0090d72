"""The positions and random orders of prepared loaders, as they stand in a checkpoint."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

from torch.utils.data import IterableDataset

from ..data.order import samplers
from ..data.position import Position, put_own, take_own
from ..data.samplers import SeedableRandomSampler
from .errors import CheckpointError


def loader_states(loaders: list[Any], passes: list[Any]) -> list[dict[str, Any]]:
    """The state of each prepared loader; `passes` are the passes in progress, innermost last."""
    return [_state(loader, _position(loader, passes)) for loader in loaders]


def check_loaders(loaders: list[Any], states: list[dict[str, Any]], folder: Any) -> None:
    """Whether positions saved make sense for these loaders.

    Raises:
        CheckpointError: another number of loaders, or another length of one in mid-epoch.
    """
    if len(loaders) != len(states):
        raise CheckpointError(
            f"{folder} holds the positions of {len(states)} loaders and {len(loaders)} are prepared: prepare the same ones, in the same order"
        )
    for index, (loader, state) in enumerate(zip(loaders, states, strict=True)):
        now, then = _size(loader), state["size"]
        if state["position"] is not None and now != then:
            raise CheckpointError(
                f"{folder} was saved in the middle of an epoch of loader {index} with {_named(then)}, and it has {_named(now)} now: "
                "go on with the same data and batch size"
            )


def load_loaders(loaders: list[Any], states: list[dict[str, Any]], processes: tuple[int, int]) -> None:
    """Let the next pass over each loader go on where it was; `processes` are how many there were and are."""
    for loader, state in zip(loaders, states, strict=True):
        _load_settings(loader, state)
        put_own(loader.original, state["own"])
        position = state["position"]
        loader.again = None
        if position is not None:
            loader.again = Position(**position)
            if hasattr(loader, "source"):
                loader.again.batches = _rounds(loader.again.batches, *processes)
        elif state["keeps_workers"] and not hasattr(loader, "source"):
            loader.again = Position(0, None, kept_workers=True)


def begin_anew(loaders: list[Any]) -> None:
    """Let the passes that were interrupted begin with their first batch, in the same order."""
    for loader in loaders:
        if loader.again is not None:
            loader.again.batches, loader.again.now = 0, None


def _rounds(rounds: int, then: int, now: int) -> int:
    """Batches of each process: those that all had together are shared out among another number."""
    return rounds * then // now


def _position(loader: Any, passes: list[Any]) -> dict[str, Any] | None:
    """Of the innermost pass over `loader`, or over the rest of it that `skip_first_batches` has made."""
    for run in reversed(passes):
        source = run.source
        if getattr(source, "root", None) is loader and source.last_run is run:
            position = source.position()
            if position is not None:
                _warn_of_lead(run)
                position.kept_workers = bool(position.kept_workers)
                return {f.name: getattr(position, f.name) for f in dataclasses.fields(position)}
    again = loader.again
    return None if again is None or again.start is None else dict(vars(again))


def _warn_of_lead(run: Any) -> None:
    """The position is behind the last batch that was delivered: what is delivered and not trained on would be lost."""
    if run.lead:
        warnings.warn(
            f"{run.lead} batches of this pass were fetched before the one of the first backward: if they wait to be trained on, by a "
            "prefetcher around the loader, a run that goes on from this state misses those that wait now. Save when none waits, or "
            "leave fetching ahead to the loader (num_workers, prefetch_factor).",
            stacklevel=2,
        )


def _state(loader: Any, position: dict[str, Any] | None) -> dict[str, Any]:
    source = getattr(loader, "source", None)
    order = getattr(source, "order", None)
    return {
        "size": _size(loader),
        "position": position,
        "own": take_own(loader.original),
        "keeps_workers": bool(getattr(loader, "keeps_workers", False)),
        "epochs": [loader.iteration, loader._told] if source is not None else None,
        "order": order.seed if order is not None else None,
        "seeds": [part.initial_seed for part in _seedable(loader)],
    }


def _load_settings(loader: Any, state: dict[str, Any]) -> None:
    source = getattr(loader, "source", None)
    if source is not None and state["epochs"] is not None:
        loader.iteration, loader._told = state["epochs"]
    if getattr(source, "order", None) is not None and state["order"] is not None:
        source.order.seed = state["order"]
    for part, seed in zip(_seedable(loader), state["seeds"], strict=False):
        part.initial_seed = seed


def _seedable(loader: Any) -> list[Any]:
    return [part for part in samplers(loader.original) if isinstance(part, SeedableRandomSampler)]


def _size(loader: Any) -> list[int | None]:
    """Samples and batch size, as far as they are known."""
    original = loader.original
    samples = None
    if not isinstance(original.dataset, IterableDataset):
        try:
            samples = len(original.dataset)
        except TypeError:
            samples = None
    return [samples, original.batch_size or getattr(original.batch_sampler, "batch_size", None)]


def _named(size: list[int | None]) -> str:
    return f"{size[0] if size[0] is not None else 'unknown'} samples in batches of {size[1] if size[1] is not None else 'unknown size'}"
