"""What a model is given first in training: the whole batch, or a part of it that was cut off after it was read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accel_migrate.verify.hooks.tracing import Recorder


def trace(recorder: Recorder) -> None:
    """Hook all modules until the first of them runs in training."""
    import torch
    from torch.nn.modules.module import register_module_forward_pre_hook

    def note(module: Any, args: tuple[Any, ...]) -> None:
        given = next((value for value in args if isinstance(value, torch.Tensor)), None)
        if given is not None and module.training and torch.is_grad_enabled():
            recorder.write(first_input=list(given.shape))
            handle.remove()

    handle = register_module_forward_pre_hook(note)
