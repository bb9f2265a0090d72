"""What is known about losses, found again under any tensor that shares their memory: `loss.detach()`, kept for later."""

from __future__ import annotations

from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

_FEW = 64


class Remembered:
    """Notes on tensors, for as long as their memory is in use and their values are not changed in place."""

    def __init__(self) -> None:
        self._notes: dict[int, tuple[StorageWeakRef, int, Any]] = {}
        self._limit = _FEW

    def put(self, value: torch.Tensor, note: Any) -> None:
        """Note something on `value`."""
        storage = StorageWeakRef(value.untyped_storage())
        self._notes[storage.cdata] = (storage, value._version, note)
        if len(self._notes) > self._limit:
            self._notes = {key: entry for key, entry in self._notes.items() if not entry[0].expired()}
            self._limit = max(_FEW, 2 * len(self._notes))

    def get(self, value: torch.Tensor) -> Any:
        """The note on `value`, or None."""
        if value.layout is not torch.strided:
            return None
        entry = self._notes.get(value.untyped_storage()._cdata)
        return entry[2] if entry is not None and entry[1] == value._version else None
