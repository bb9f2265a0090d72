"""Loaders with `state_dict` and `load_state_dict`, in the manner of torchdata's `StatefulDataLoader`.

Where the user's loader is read as it is, the state is torchdata's own. Where it is shared out among processes, it is the
position in the pass and the random streams that it began with, for each process.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler

from .face import LoaderFace, rebuild
from .position import Position, take

_POSITION = "position"


def as_stateful(loader: DataLoader[Any]) -> DataLoader[Any]:
    """The same data set, samplers and workers as torchdata's loader.

    Raises:
        ImportError: torchdata is not installed.
        ValueError: a loader with an iteration of its own, whose place nobody can know.
    """
    kind = _torchdata()
    if isinstance(loader, kind):
        return loader
    if type(loader).__iter__ is not DataLoader.__iter__:
        raise ValueError(
            f"use_stateful_dataloader=True: {type(loader).__name__} has an iteration of its own; leave it out for this loader"
        )
    return rebuild(loader, loader.dataset, kind=kind, **_batching(loader))


def _batching(loader: DataLoader[Any]) -> dict[str, Any]:
    """How the loader draws batches; default samplers are left to torchdata, whose own know their place."""
    if not isinstance(loader.dataset, IterableDataset) and loader.batch_size is None:
        return (
            {"sampler": loader.sampler, "batch_size": None}
            if loader.batch_sampler is None
            else {"batch_sampler": loader.batch_sampler}
        )
    batching: dict[str, Any] = {"batch_size": loader.batch_size, "drop_last": loader.drop_last}
    if isinstance(loader.dataset, IterableDataset) or type(loader.sampler) is SequentialSampler:
        return batching
    if type(loader.batch_sampler) is not BatchSampler:
        return {"batch_sampler": loader.batch_sampler}
    sampler = loader.sampler
    plain = type(sampler) is RandomSampler and not sampler.replacement and sampler._num_samples is None
    return batching | ({"shuffle": True} if plain and sampler.generator is loader.generator else {"sampler": sampler})


def remembering(loader: LoaderFace) -> Any:
    """`loader`, over a stateful original, with the two methods; it counts as a `StatefulDataLoader`."""
    made = blank(type(loader))
    made.__dict__.update(loader.__dict__)
    return made


def blank(cls: type[LoaderFace]) -> Any:
    """An object of a class like `cls` that has the two methods, before its `__init__`."""
    kind = _kind(cls)
    made = kind.__new__(kind)
    object.__setattr__(made, "place_before_fetch", None)
    object.__setattr__(made, "resumes", False)
    return made


class Remembers:
    """What is put before the class of a prepared loader."""

    use_stateful_dataloader = True
    original: Any
    place_before_fetch: dict[str, Any] | None
    resumes: bool

    def state_dict(self) -> dict[str, Any]:
        """Where the pass has come to: what was delivered counts, not what workers have read."""
        if self.reads_original:  # type: ignore[attr-defined]
            return self.original.state_dict() if self.place_before_fetch is None else self.place_before_fetch
        position = self.position() or self.again  # type: ignore[attr-defined]
        if position is None:
            return {_POSITION: None}
        now = take(self.original) if position.now is None else position.now
        return {_POSITION: dataclasses.asdict(dataclasses.replace(position, now=now))}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Let the next pass go on from there.

        Raises:
            ValueError: the state is one of another number of processes.
        """
        if self.reads_original == (_POSITION in state_dict):  # type: ignore[attr-defined]
            raise ValueError(
                "the state is that of a loader on another number of processes: use save_state and load_state of the Accelerator"
            )
        if self.reads_original:  # type: ignore[attr-defined]
            self.original.load_state_dict(state_dict)
            self.resumes = True
        elif state_dict[_POSITION] is not None:
            self.again = Position(**state_dict[_POSITION])

    def skipping(self, batches: int) -> Any:
        """The same loader, some batches later."""
        return remembering(super().skipping(batches))  # type: ignore[misc]

    def begin_fetch(self, holds: bool) -> None:
        """A batch is fetched; with `holds`, another one that was fetched before is delivered first."""
        self.place_before_fetch = self.original.state_dict() if holds and self.reads_original else None  # type: ignore[attr-defined]

    def ends_early(self) -> bool:
        """Whether the pass that begins is the rest of another, so that its length is unknown."""
        resumes, self.resumes = self.resumes, False
        return resumes


@functools.cache
def _kind(cls: type[LoaderFace]) -> type:
    own = cls.own_attributes | {"place_before_fetch", "resumes"}
    return type(
        cls.__name__,
        (Remembers, cls, _torchdata()),
        {"own_attributes": own, "__doc__": cls.__doc__, "__module__": cls.__module__},
    )


def _torchdata() -> Any:
    try:
        from torchdata.stateful_dataloader import StatefulDataLoader
    except ImportError as error:
        raise ImportError("use_stateful_dataloader=True needs torchdata: pip install torchdata") from error
    return StatefulDataLoader
