"""Low precision: which of it a script uses, and the same script with everything in float32."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from accel_migrate.verify.hooks import state

_LOW = ("float16", "bfloat16")


def note_autocast() -> None:
    """Hook autocast, where it is on."""
    import torch

    plain = torch.autocast.__enter__

    def enter(self: Any) -> Any:
        if self._enabled:
            _note("autocast to", self.fast_dtype)
        return plain(self)

    torch.autocast.__enter__ = enter  # type: ignore[method-assign]


def note_weights(parameters: Iterable[Any]) -> None:
    """Those that are trained in low precision."""
    for dtype in {p.dtype for p in parameters}:
        _note("weights in", dtype)


def _note(how: str, dtype: Any) -> None:
    name = str(dtype).removeprefix("torch.")
    if name in _LOW:
        state.note_use("precision")
        state.note_use(f"{how} {name}")


def raise_precision() -> None:
    """Patch torch in this process: autocast does nothing, and what is asked for in low precision is float32."""
    import torch

    plain, default = torch.autocast.__init__, torch.set_default_dtype

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        plain(self, *args, **kwargs)
        self._enabled = False

    torch.autocast.__init__ = init  # type: ignore[method-assign]
    torch.set_default_dtype = lambda dtype: default(_raised(dtype))
    _mode().__enter__()


def _mode() -> Any:
    import torch
    from torch.overrides import TorchFunctionMode

    shorthand = {torch.Tensor.half: torch.Tensor.float, torch.Tensor.bfloat16: torch.Tensor.float}
    left_alone = {torch.Tensor.view, torch.finfo, torch.promote_types, torch.can_cast}

    class InFloat32(TorchFunctionMode):
        def __torch_function__(
            self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if function in left_alone:  # bits read as another type stay what they are
                return function(*args, **(kwargs or {}))
            named = {name: _raised(value) for name, value in (kwargs or {}).items()}
            return shorthand.get(function, function)(*map(_raised, args), **named)

    return InFloat32()


def _raised(value: Any) -> Any:
    import torch

    return torch.float32 if isinstance(value, torch.dtype) and str(value).removeprefix("torch.") in _LOW else value
