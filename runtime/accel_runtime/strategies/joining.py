"""Unequal numbers of batches: processes that have none left take part in the reductions of the others with zeros.

At the end of each backward the processes first say whether they have one; a process that has left its loop only answers,
until none has one. As torch's `Join` does by default, means are over all processes, those without batches included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ..world import World

if TYPE_CHECKING:
    from .reducer import Reduction


class Turns:
    """Who takes part in the reductions of a `with` block.

    Attributes:
        taken: backwards of this process whose gradients were averaged.
        furthest: after the block, the rank of the process with the most of them; None where all have as many.
    """

    def __init__(self, reduction: Reduction, world: World) -> None:
        self.reduction = reduction
        self.world = world
        self.taken = 0
        self.furthest: int | None = None

    def __enter__(self) -> Turns:
        self.reduction.turns = self
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if kind is None:
                self._accompany()
        finally:
            self.reduction.turns = None

    def reduce(self) -> None:
        """At the end of a backward: average the gradients of all models which it reached on some process."""
        self.taken += 1
        wanted = self._meet([1, *(reducer.active for reducer in self.reduction.reducers)])
        for reducer, count in zip(self.reduction.reducers, wanted[1:], strict=True):
            if count:
                reducer.finish()

    @torch.no_grad()
    def _accompany(self) -> None:
        """No batch is left here: answer until none is left anywhere."""
        nothing = [0] * (1 + len(self.reduction.reducers))
        while (wanted := self._meet(nothing))[0]:
            for reducer, count in zip(self.reduction.reducers, wanted[1:], strict=True):
                if count:
                    reducer.shadow()
        mine = [self.taken if rank == self.world.rank else 0 for rank in range(self.world.size)]
        taken = self._meet(mine)
        self.furthest = taken.index(max(taken)) if len(set(taken)) > 1 else None

    def _meet(self, numbers: list[Any]) -> list[int]:
        """The sums over the processes."""
        sums = torch.tensor(numbers, dtype=torch.int64, device=self.world.wire(self.world.device))
        self.reduction.group.allreduce([sums]).wait()
        return sums.tolist()
