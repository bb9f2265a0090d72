"""Calls of an accelerator that lose what they should keep, on one process as on several, and who makes which calls.

Only Hugging Face Accelerate has them: the bundled runtime makes each of these harmless or has no such call.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accel_migrate.verify.hooks.steps import Steps
    from accel_migrate.verify.hooks.tracing import Recorder

_GATHERING = ("gather", "gather_for_metrics", "reduce")
_COUNTED = ("save_state", "load_state")
"""What each process saves or loads for itself: a call that only some make leaves the state of the others behind."""


def trace(recorder: Recorder, steps: Steps, folder: str) -> None:
    """Hook `accelerate.Accelerator`, if it has been imported."""
    module = sys.modules.get("accelerate")
    if module is None:
        return
    watch = _Watch(recorder, steps, folder)
    recorder.write(gathers=False)
    kind = module.Accelerator  # type: ignore[attr-defined]
    for name in _COUNTED:
        _before(kind, name, functools.partial(watch.called, name))
    for name in _GATHERING:
        _before(kind, name, watch.gathering)
    _before(kind, "load_state", watch.loading)
    _before(kind, "backward", watch.backward)
    _before(sys.modules["accelerate.optimizer"].AcceleratedOptimizer, "zero_grad", watch.zero_grad)


def _before(kind: Any, name: str, first: Callable[..., None]) -> None:
    plain = getattr(kind, name)

    @functools.wraps(plain)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        first(self, *args)
        return plain(self, *args, **kwargs)

    setattr(kind, name, call)


class _Watch:
    def __init__(self, recorder: Recorder, steps: Steps, folder: str) -> None:
        self.recorder, self.steps, self.folder = recorder, steps, folder
        self.said: set[str] = set()
        self.gathered = False

    def called(self, name: str, *_: Any) -> None:
        self.recorder.write(called=name, at=self._place())

    def gathering(self, *_: Any) -> None:
        if not self.gathered:
            self.gathered = True
            self.recorder.write(gathers=True)

    def loading(self, accelerator: Any, *_: Any) -> None:
        if not any((accelerator._models, accelerator._optimizers, accelerator._custom_objects)):
            self._say("load_state runs before anything is prepared or registered, so that it restores nothing: prepare first")

    def backward(self, accelerator: Any, loss: Any = None, *_: Any) -> None:
        window = accelerator.gradient_accumulation_steps
        if window > 1 and _divisor(loss) == window:
            self._say(f"the loss is divided by {window} by hand, and accelerator.backward divides it by gradient_accumulation_steps={window} again")

    def zero_grad(self, optimizer: Any, *_: Any) -> None:
        state = optimizer.gradient_state
        if state.sync_gradients and state.num_steps > 1 and self.steps.losses:
            self._say(f"zero_grad throws away the gradients of {len(self.steps.losses)} backwards of the accumulation window before they are applied: call it after optimizer.step()")

    def _say(self, text: str) -> None:
        if text not in self.said:
            self.said.add(text)
            self.recorder.write(fault=text, at=self._place())

    def _place(self) -> str:
        """The innermost line of the script's own files."""
        frame: FrameType | None = sys._getframe()
        while frame is not None and not frame.f_code.co_filename.startswith(self.folder):
            frame = frame.f_back
        return f"{frame.f_code.co_filename[len(self.folder) :].lstrip('/')}:{frame.f_lineno}" if frame else ""


def _divisor(loss: Any) -> float:
    """The number by which the loss was divided last; 0 if that was something else."""
    made_by = getattr(loss, "grad_fn", None)
    name = made_by.name() if made_by is not None else ""
    other = getattr(made_by, "_saved_other", None) if name in ("DivBackward0", "MulBackward0") else None
    if other is None or other.numel() != 1 or not float(other):
        return 0.0
    return float(other) if name == "DivBackward0" else 1 / float(other)
