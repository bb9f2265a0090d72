"""What the threads of the processes tell that of the main one: through the store in which the processes have met.

No collective runs in a thread, and no file is needed, which a full disk could refuse.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from pathlib import Path
from typing import Any

import torch.distributed as dist

from ..world import World
from .errors import CheckpointError

_PATIENCE = 600.0
_PATIENCE_AT_THE_END = 10.0
_PAUSE = 0.01


class Gone(CheckpointError):
    """The folder is not there any more."""


class Notes:
    """A note of each process about one checkpoint.

    Args:
        world: the processes.
        name: of the checkpoint, the same on all of them, and new.
        store: default: that of the process group.
    """

    def __init__(self, world: World, name: str, store: Any = None) -> None:
        self._world = world
        self._name = name
        self._store = store or (dist.distributed_c10d._get_default_store() if world.size > 1 else None)

    def leave(self, note: dict[str, Any]) -> None:
        """Leave this process's note; where the main process is gone nobody needs it."""
        with contextlib.suppress(RuntimeError):
            self._store.set(self._key(self._world.rank), json.dumps(note))

    def all(self, own: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
        """On the main process: the notes of all, by rank; `own` is its own, and `folder` where the checkpoint is.

        Raises:
            Gone: the folder was removed.
            CheckpointError: a process has left none for long.
        """
        began = time.monotonic()
        found = [own]
        for rank in range(1, self._world.size):
            while not self._store.check([self._key(rank)]):
                _check_patience(folder, rank, time.monotonic() - began)
                time.sleep(_PAUSE)
            found.append(json.loads(self._store.get(self._key(rank))))
            self._store.delete_key(self._key(rank))
        return found

    def _key(self, rank: int) -> str:
        return f"accel/{self._name}/{rank}"


def _check_patience(folder: Path, rank: int, waited: float) -> None:
    if not folder.exists():
        raise Gone(f"{folder} was removed while it was written")
    patience = _PATIENCE if threading.main_thread().is_alive() else _PATIENCE_AT_THE_END
    if waited > patience:
        raise CheckpointError(f"process {rank} has not written its part of {folder} within {patience:.0f} seconds")
