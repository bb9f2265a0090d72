"""The gradient scaler of fp16: torch's, whose scale is updated once for all optimizers that step on the same backwards."""

from __future__ import annotations

from typing import Any

import torch
from torch.optim import Optimizer


class Scaler(torch.amp.GradScaler):
    """`update` follows the steps by itself, before the scale is needed again.

    Right after a step would be too early: it forgets which gradients of the other optimizers are unscaled, and theirs would be divided by the next scale.
    Pickled, it is torch's own class.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._stepped: set[int] = set()

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> float | None:
        self.begin(optimizer)
        result = super().step(optimizer, *args, **kwargs)
        if self.is_enabled():
            self._stepped.add(id(optimizer))
        return result

    def begin(self, optimizer: Optimizer) -> None:
        """Let gradients of `optimizer` be unscaled, or stepped on, a second time: then the first was another round."""
        if id(optimizer) in self._stepped:
            self.settle()

    def settle(self) -> None:
        """Update the scale for the steps since the last update, if there were any."""
        if self._stepped:
            self.update()

    def update(self, new_scale: Any = None) -> None:
        self._stepped.clear()
        super().update(new_scale)

    def scale(self, outputs: Any) -> Any:
        self.settle()
        return super().scale(outputs)

    def get_scale(self) -> float:
        self.settle()
        return super().get_scale()

    def state_dict(self) -> dict[str, Any]:
        self.settle()
        return super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.settle()
        super().load_state_dict(state_dict)

    def __reduce__(self) -> tuple[Any, ...]:
        self.settle()
        state = {name: value for name, value in self.__getstate__().items() if name not in ("_stepped", "_unscale_grads_")}
        return torch.amp.GradScaler, (self._device,), state
