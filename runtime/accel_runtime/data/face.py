"""A loader with the face of another one, and plain loaders like another one with other batching."""

from __future__ import annotations

import sys
from typing import Any

from torch.utils.data import DataLoader

_KEPT = ("num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn", "generator", "persistent_workers")
_KEPT_WITH_WORKERS = ("prefetch_factor", "multiprocessing_context")


class LoaderFace(DataLoader[Any]):
    """A DataLoader whose attributes are those of `original`, read and written, but for its `own_attributes`."""

    own_attributes: frozenset[str] = frozenset({"original"})
    original: DataLoader[Any]
    _is_accelerate_prepared = True

    @property
    def base_dataloader(self) -> DataLoader[Any]:
        """The loader behind this one."""
        return self.original

    @property
    def reads_original(self) -> bool:
        """Whether a pass reads `original` as it is."""
        return True

    def begin_fetch(self, holds: bool) -> None:
        """A batch is fetched; loaders that remember their place note it."""

    def ends_early(self) -> bool:
        """Whether the pass that begins may be the rest of another."""
        return False

    @property
    def gradient_state(self) -> Any:
        """The state in which the loaders in use are known."""
        from ..state import GradientState

        return GradientState()

    def __getattr__(self, name: str) -> Any:
        if name in self.own_attributes or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.original, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.own_attributes:
            object.__setattr__(self, name, value)
        else:
            setattr(self.original, name, value)


def iterates_plainly(loader: DataLoader[Any]) -> bool:
    """Whether the batches of `loader` are those which its sampler or data set and its `collate_fn` make: also of torchdata's loaders."""
    iterates = type(loader).__iter__
    if iterates is DataLoader.__iter__:
        return True
    torchdata = sys.modules.get("torchdata.stateful_dataloader")
    return torchdata is not None and iterates is torchdata.StatefulDataLoader.__iter__


def rebuild(loader: DataLoader[Any], dataset: Any, kind: type[DataLoader[Any]] = DataLoader, **changes: Any) -> DataLoader[Any]:
    """A plain loader (or one of class `kind`) over `dataset` with the workers, the collation and the pinning of `loader`."""
    settings = {name: getattr(loader, name) for name in _KEPT}
    if loader.num_workers > 0:
        settings |= {name: getattr(loader, name) for name in _KEPT_WITH_WORKERS}
    if getattr(loader, "pin_memory_device", ""):
        settings["pin_memory_device"] = loader.pin_memory_device
    return kind(dataset, **{**settings, **changes})
