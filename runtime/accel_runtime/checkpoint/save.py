"""`save_state`, step by step."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from . import places
from .capture import Files, capture, is_sharded, state_to_save
from .errors import CheckpointError
from .lone import guarded_place, meet
from .manifest import File, Manifest, describe
from .staging import Staging
from .writing import message_of, on_main, together, write_files

if TYPE_CHECKING:
    from ..world import World
    from .control import Checkpointing


class Saving:
    """One checkpoint in the making; on the main process it holds the staging folder.

    Raises:
        CheckpointError: some processes have not called, or the folder cannot be made.
    """

    def __init__(self, accelerator: Checkpointing, output_dir: str | None) -> None:
        self.accelerator = accelerator
        self.world = _writers(accelerator)
        self.project = accelerator.project_configuration
        self.staging: Staging | None = None
        self.what = "the checkpoint was not saved, earlier ones are untouched"
        path, target, self.fresh = on_main(self.world, lambda: self._begin(output_dir), self.what)
        self.path, self.target = Path(path), Path(target)

    def _begin(self, output_dir: str | None) -> tuple[str, str, bool]:
        target, fresh = places.target_of(self.project, output_dir)
        self.staging = Staging(target)
        return str(self.staging.path), str(target), fresh

    def capture(self, safe: bool) -> Files:
        """Run the hooks; this process's files."""
        captured: list[Files] = []
        try:
            together(self.world, lambda: captured.append(self._capture(safe)), self.what)
        except BaseException:
            self.discard()
            raise
        return captured[0]

    def _capture(self, safe: bool) -> Files:
        weights = [state_to_save(self.accelerator, model) for model in self.accelerator._models]
        for hook in self.accelerator._save_hooks.values():
            hook(self.accelerator._models, weights, str(self.path))
        return capture(self.accelerator, self.world, weights, safe)

    def write(self, files: Files) -> dict[str, File]:
        """Write this process's files."""
        return write_files(self.path, files)

    def finish(self, files: Files) -> str:
        """Write on every process, then make it a checkpoint; where it is."""
        try:
            written = together(self.world, lambda: self.write(files), self.what)
        except BaseException:
            self.discard()
            raise
        return on_main(self.world, lambda: self.commit(written), self.what)

    def commit(self, written: list[dict[str, File]]) -> str:
        """On the main process: write the manifest, move the folder to its place, remove what is too old."""
        assert self.staging is not None
        try:
            known = {name: file for part in written for name, file in part.items()}
            Manifest(describe(self.path, known), self.world.size, {}).write(self.path)
            while not self.staging.move_to(self.target, self.fresh):
                self.target = places.next_number(self.target)
        except Exception as error:
            self.discard()
            raise CheckpointError(message_of(error)) from error
        if self.project.automatic_checkpoint_naming:
            self.project.iteration = places.number_of(self.target) + 1
            places.prune(self.target.parent, self.project.total_limit)
        return str(self.target)

    def discard(self) -> None:
        """Leave nothing behind."""
        if self.staging is not None:
            self.staging.discard()


def _writers(accelerator: Checkpointing) -> World:
    """The processes that write: all of them, or the main one where the script lets only that one call."""
    world = accelerator.world
    place = guarded_place(world)
    if place is None:
        meet(world, "save_state")
        return world
    if is_sharded(accelerator) or accelerator.accumulation.unstepped:
        what = (
            "its part of the model" if is_sharded(accelerator) else "its part of the gradients that wait for their step"
        )
        raise CheckpointError(
            f"{place}: save_state is called by the main process only, and every process has {what}: take the call out of the `if`"
        )
    warnings.warn(
        f"{place}: save_state is called by the main process only, so the random streams of the others are not saved: "
        "a resumed run sees the same samples, but is not equal bit by bit. Take the call out of the `if`.",
        stacklevel=5,
    )
    return replace(world, rank=0, size=1)
