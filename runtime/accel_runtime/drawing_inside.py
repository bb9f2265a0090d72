"""Random numbers that a function draws inside, such as a distribution's sample: for the global batch, whatever it makes of them.

Every random operation in the function whose rows are a live batch's is made for the global batch, and this process's rows
of the result are handed on. Gradients flow as without: the operations are caught below autograd.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import collectives
from .batches import Share, Tracker
from .world import World

_SIZED = {"rand", "randn", "randint", "normal"}
_LIKE = {"rand_like", "randn_like", "randint_like", "bernoulli", "multinomial", "normal"}
_IN_PLACE = {"normal_", "uniform_", "bernoulli_", "exponential_", "cauchy_", "geometric_", "log_normal_", "random_"}
_REJECTING = {"poisson", "binomial", "_standard_gamma", "_sample_dirichlet"}
"""They use as many random numbers as their arguments ask for, hence need the real rows of all processes."""


def draw_inside(world: World, tracker: Tracker, factory: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`factory(*args, **kwargs)` with the random numbers of the global batch's rows."""
    with _WholeBatch(world, tracker, _row_axis(factory, args, kwargs)):
        return factory(*args, **kwargs)


def _row_axis(factory: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """The rows of `distribution.sample(shape)` stand behind the dimensions of `shape`."""
    if not isinstance(getattr(factory, "__self__", None), torch.distributions.Distribution):
        return 0
    shape = args[0] if args else kwargs.get("sample_shape", ())
    return len(torch.Size(shape))


class _WholeBatch(TorchDispatchMode):
    """Widens random operations to the global batch along dimension `axis`."""

    def __init__(self, world: World, tracker: Tracker, axis: int) -> None:
        super().__init__()
        self.world, self.tracker, self.axis = world, tracker, axis

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        if name not in _SIZED | _LIKE | _IN_PLACE | _REJECTING:
            return func(*args, **kwargs)
        rows = next((self._rows(a) for a in args if isinstance(a, (torch.Tensor, list, tuple, torch.Size))), None)
        share = None if rows is None else self.tracker.sized(rows)
        if share is None:
            return func(*args, **kwargs)
        widen = self._gathered if name in _REJECTING else self._widened
        drawn = func(*(widen(a, share) for a in args), **kwargs)
        if isinstance(drawn, tuple):
            return tuple(self._own(d, share) for d in drawn)
        return args[0].copy_(self._own(drawn, share)) if name in _IN_PLACE else self._own(drawn, share)

    def _rows(self, value: Any) -> int | None:
        shape = value.shape if isinstance(value, torch.Tensor) else value
        return shape[self.axis] if len(shape) > self.axis else None

    def _widened(self, value: Any, share: Share) -> Any:
        """A tensor or size of the global batch; the rows of other processes hold valid values."""
        if isinstance(value, (list, tuple)):
            return [share.total if d == self.axis else n for d, n in enumerate(value)] if self._rows(value) == share.local else value
        if not isinstance(value, torch.Tensor) or self._rows(value) != share.local:
            return value
        whole = value.narrow(self.axis, 0, 1).expand([share.total if d == self.axis else n for d, n in enumerate(value.shape)]).clone()
        whole.narrow(self.axis, share.start, share.local).copy_(value)
        return whole

    def _gathered(self, value: Any, share: Share) -> Any:
        if not isinstance(value, torch.Tensor) or self._rows(value) != share.local:
            return value
        rows = value.movedim(self.axis, 0)
        return collectives.gather_rows(self.world, rows[:0] if share.borrowed else rows).movedim(0, self.axis)

    def _own(self, whole: torch.Tensor, share: Share) -> torch.Tensor:
        return whole.narrow(self.axis, share.start, share.local).contiguous()
