"""`save_state`, step by step."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from . import places
from .capture import Files, capture, is_sharded, state_to_save
from .disk import Unsynced, sync_folder
from .errors import CheckpointError
from .lone import guarded_place, meet
from .manifest import File, Manifest, describe
from .parallel import threads_for
from .staging import Staging
from .writing import message_of, on_main, together, write_files

if TYPE_CHECKING:
    from ..world import World
    from .control import Checkpointing


class Saving:
    """One checkpoint in the making; on the main process it holds the staging folder.

    What replaces a checkpoint, or is written in the background, is on the disk before it appears. What takes a new name appears when
    it is complete, and reaches the disk afterwards: until then nothing that is older is removed.

    Raises:
        CheckpointError: some processes have not called, or the folder cannot be made, or an earlier save has failed.
    """

    def __init__(self, accelerator: Checkpointing, output_dir: str | None, in_background: bool) -> None:
        self.accelerator = accelerator
        self.world = _writers(accelerator)
        self.project = accelerator.project_configuration
        self.staging: Staging | None = None
        self.what = "the checkpoint was not saved, earlier ones are untouched"
        path, target, self.fresh, replaces = on_main(self.world, lambda: self._begin(output_dir), "")
        self.path, self.target = Path(path), Path(target)
        self.unsynced = Unsynced(soon=in_background or replaces)

    def _begin(self, output_dir: str | None) -> tuple[str, str, bool, bool]:
        self.accelerator.raise_error_of_background()
        try:
            target, fresh = places.target_of(self.project, output_dir)
            self.staging = Staging(target)
        except Exception as error:
            raise CheckpointError(f"{self.what}: {message_of(error)}") from error
        return str(self.staging.path), str(target), fresh, target.exists()

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
        """Write this process's files, to the disk where that cannot wait."""
        written = self.write_to_memory(files)
        if self.unsynced.soon:
            self.unsynced.sync()
        return written

    def write_to_memory(self, files: Files) -> dict[str, File]:
        """Write this process's files, which may be in the memory of the system only."""
        return write_files(self.path, files, self.unsynced, threads_for(self.world))

    def finish(self, files: Files) -> str:
        """Write on every process, then make it a checkpoint; where it is."""
        try:
            written = together(self.world, lambda: self.write(files), self.what)
        except BaseException:
            self.discard()
            raise
        try:
            self.target = Path(on_main(self.world, lambda: self.commit(written), self.what))
        except BaseException:
            self.unsynced.close()
            raise
        return str(self.target)

    def commit(self, written: list[dict[str, File]]) -> str:
        """On the main process: write the manifest and move the folder to its place."""
        assert self.staging is not None
        try:
            known = {name: file for part in written for name, file in part.items()}
            found = describe(self.path, known, self.unsynced)
            Manifest(found, self.world.size, {}).write(self.path, self.unsynced)
            self._sync_before_the_move(found)
            while not self.staging.move_to(self.target, self.fresh):
                self.target = places.next_number(self.target)
        except Exception as error:
            self.discard()
            raise CheckpointError(message_of(error)) from error
        if self.project.automatic_checkpoint_naming:
            self.project.iteration = places.number_of(self.target) + 1
        if self.unsynced.soon:
            with contextlib.suppress(OSError):  # it is there, and whole; what came before stays
                self.sync_names()
                self.prune()
        return str(self.target)

    def _sync_before_the_move(self, files: Iterable[str]) -> None:
        if not self.unsynced.soon:
            if self.fresh or not self.target.exists():
                return
            for name in files:  # another run has saved there in the meantime
                self.unsynced.add(self.path / name)
        self.unsynced.sync()
        sync_folder(self.path)

    def sync_names(self) -> None:
        """On the main process: see to it that the names of the files and of the folder are on the disk, as the files are.

        Raises:
            OSError: the disk fails.
        """
        for place, _, _ in os.walk(self.target):
            sync_folder(Path(place))
        sync_folder(self.target.parent)

    def prune(self) -> None:
        """On the main process, when all is on the disk: remove what is too old."""
        if self.project.automatic_checkpoint_naming:
            places.prune(self.target.parent, self.project.total_limit)

    def discard(self) -> None:
        """Leave nothing behind."""
        self.unsynced.close()
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
