"""Tables of positions that a model cuts to a length: wrong where a process has another part of the sequence than its first tokens."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode


class Looking(TorchFunctionMode):
    """Inside, a table of learned, or stored, positions from whose beginning as many rows are taken as a part has tokens is an error.

    No part of a sequence that processes share is its beginning, so these are never the positions of the tokens.

    Args:
        length: tokens of a part.
        total: tokens of the whole sequence.
        buffers: those of the models.
    """

    def __init__(self, length: int, total: int, buffers: set[int]) -> None:
        super().__init__()
        self.length, self.total, self.buffers = length, total, buffers

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.__getitem__:
            table, index = args
            if self._is_table(table) and self._takes_first_rows(table, index if isinstance(index, tuple) else (index,)):
                self._refuse(table)
        elif func is functional.embedding and self._counts_up(args[0]):
            self._refuse(args[1] if len(args) > 1 else kwargs["weight"])
        return func(*args, **(kwargs or {}))

    def _is_table(self, table: torch.Tensor) -> bool:
        """A weight or buffer with rows for the whole sequence; widths that are as long as a part could be meant by the cut."""
        kept = isinstance(table, nn.Parameter) or id(table) in self.buffers
        return kept and table.ndim > 1 and max(table.shape) >= self.total and self.length not in table.shape

    def _takes_first_rows(self, table: torch.Tensor, index: tuple[Any, ...]) -> bool:
        entries = [entry for entry in index if entry is not None]
        if Ellipsis in [entry for entry in entries if not isinstance(entry, torch.Tensor)]:
            return False
        return any(self._is_beginning(entry) for entry, size in zip(entries, table.shape, strict=False) if size >= self.total)

    def _is_beginning(self, entry: Any) -> bool:
        if isinstance(entry, slice):
            return entry.start in (None, 0) and entry.step in (None, 1) and entry.stop == self.length
        return isinstance(entry, torch.Tensor) and self._counts_up(entry)

    def _counts_up(self, index: torch.Tensor) -> bool:
        if index.dtype not in (torch.int64, torch.int32) or index.ndim == 0 or index.shape[-1] != self.length or self.length < 2:
            return False
        return bool((index == torch.arange(self.length, device=index.device)).all())

    def _refuse(self, table: torch.Tensor) -> None:
        raise ValueError(
            f"inside maybe_context_parallel the first {self.length} rows of a table {list(table.shape)} are taken for positions, and a process's {self.length} tokens "
            "do not stand at the beginning of the sequence: let the model look positions up by ids that the script makes, and name these among the buffers"
        )
