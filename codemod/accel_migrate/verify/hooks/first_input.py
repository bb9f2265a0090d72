"""What a model is given first, in training and in evaluation: the whole batch, or a part of it that was cut off after it was read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accel_migrate.verify.hooks.tracing import Recorder


def trace(recorder: Recorder) -> None:
    """Hook all modules until the first of them has run in training, and in evaluation."""
    import torch
    from torch.nn.modules.module import register_module_forward_pre_hook

    waits_for = {"first_input", "first_evaluated"}

    def note(module: Any, args: tuple[Any, ...]) -> None:
        name = "first_input" if module.training and torch.is_grad_enabled() else "" if module.training else "first_evaluated"
        given = next((value for value in args if isinstance(value, torch.Tensor)), None) if name in waits_for else None
        if given is None:
            return
        recorder.write(**{name: list(given.shape)})
        waits_for.remove(name)
        if not waits_for:
            handle.remove()

    handle = register_module_forward_pre_hook(note)
