"""What of checkpoints goes on behind the training, and waiting for it: methods of `Accelerator`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from torch.optim import Optimizer

from ..preparing import Preparing

if TYPE_CHECKING:
    from .background import Background


class Behind(Preparing):
    """At most one checkpoint that is being written, or is on its way to the disk."""

    project_configuration: Any
    _background: Background | None

    @property
    def background(self) -> Background:
        """What writes in the background."""
        if self._background is None:
            from .background import Background

            self._background = Background()
        return self._background

    def prepare_optimizer(self, optimizer: Optimizer, device_placement: bool | None = None) -> Optimizer:
        """Make `optimizer` step on all processes, in place."""
        known = id(optimizer) in self._optimizers
        optimizer = super().prepare_optimizer(optimizer, device_placement)
        if self.project_configuration.async_save and not known:
            self._reserve_at_first_step(optimizer)
        return optimizer

    def _reserve_at_first_step(self, optimizer: Optimizer) -> None:
        """Its states exist from then on; what cannot be seen without the other processes is left to the first save."""
        if self.strategy.saves_whole or self.strategy.gathers_states:
            return

        def reserve(*_: Any) -> None:
            from .capture import tensors_to_save

            hook.remove()
            self.background.copies.reserve(tensors_to_save(self, self.world))  # type: ignore[arg-type]

        hook = optimizer.register_step_post_hook(reserve)

    def wait_for_checkpoint(self) -> None:
        """Wait until the latest checkpoint is complete and on the disk; every process has to call this.

        Raises:
            CheckpointError: it could not be written; on every process.
        """
        from .lone import guarded_place
        from .writing import on_main

        self.join_background()
        if self.world.size == 1 or guarded_place(self.world) is not None:
            self.raise_error_of_background()
        else:
            on_main(self.world, self.raise_error_of_background, "")

    def finish_checkpoint(self) -> None:
        """Wait for this process's part, and on the main one for the whole.

        Raises:
            CheckpointError: on the main process, if the checkpoint could not be written.
        """
        self.join_background()
        self.raise_error_of_background()

    def join_background(self) -> None:
        """Wait for this process's thread."""
        if self._background is not None:
            self._background.join()

    def raise_error_of_background(self) -> None:
        """Raise what has gone wrong since the last time; on the main process, which knows of all."""
        if self._background is not None:
            self._background.raise_error()

    def save_and_wait(self, output_dir: str | os.PathLike[str] | None) -> str:
        """`save_state`, and wait until it is on the disk, before the machine may be taken away."""
        where = self.save_state(output_dir, async_save=False)  # type: ignore[attr-defined]
        self.wait_for_checkpoint()
        return where
