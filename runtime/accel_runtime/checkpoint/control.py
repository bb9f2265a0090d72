"""Checkpoints: methods of `Accelerator`."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from torch import nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from .behind import Behind
from .epochs import Epochs

_LOCATIONS = (None, "cpu", "on_device")


class Checkpointing(Behind):
    """What `Accelerator` offers to interrupt a training and to go on with it."""

    def _begin_checkpointing(self) -> None:
        self.counters: dict[str, Any] = {}
        self._custom_objects: list[Any] = []
        self._save_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self._load_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self._epochs = Epochs(self.tracker)
        self._background = None

    def save_state(
        self,
        output_dir: str | os.PathLike[str] | None = None,
        safe_serialization: bool = True,
        async_save: bool | None = None,
        **kwargs: Any,
    ) -> str:
        """Save everything that the rest of the training depends on; every process has to call this.

        Models, optimizers, schedulers, the gradient scaler, registered objects, `counters`, the position in each loader, and
        the random streams of each process. The checkpoint appears when it is complete; one that it replaces stays until then.

        Args:
            output_dir: the folder. Default: `checkpoints/checkpoint` in the project folder; with
                `automatic_checkpoint_naming` always the next number there.
            safe_serialization: models as safetensors; False: as `torch.save` writes them.
            async_save: return when the tensors are copied, and write while the training goes on. The next `save_state`,
                `load_state`, `wait_for_checkpoint` or `end_training` waits for it, and raises its error. Default: as
                `ProjectConfiguration(async_save=...)` says.
            **kwargs: not used; options of other strategies in Accelerate.

        Returns:
            The folder.

        Raises:
            CheckpointError: it could not be written; on every process.
        """
        from .save import Saving

        if async_save is None:
            async_save = self.project_configuration.async_save
        self.join_background()
        saving = Saving(self, os.fspath(output_dir) if output_dir is not None else None, async_save)
        files = saving.capture(safe_serialization)
        if async_save:
            return self.background.write(saving, files)
        where = saving.finish(files)
        return where if saving.unsynced.soon else self.background.settle(saving)

    def load_state(
        self,
        input_dir: str | os.PathLike[str] | None = None,
        load_kwargs: dict[str, Any] | None = None,
        resume_loaders: bool = True,
        **load_model_func_kwargs: Any,
    ) -> str | None:
        """Go on where `save_state` was called, on as many processes as then or another number; every process has to call this.

        A loop over a loader that was interrupted in the middle of an epoch goes on with the next batch.

        Args:
            input_dir: the folder. None: the newest complete checkpoint in the project folder. "auto": the same, if there is one.
            load_kwargs: `{"weights_only": False}` unpickles objects of any kind: of files that you trust.
            resume_loaders: False begins each loader at the beginning of its epoch, for a script that skips what it has seen.
            **load_model_func_kwargs: for the models' `load_state_dict`, such as `strict=False`.

        Returns:
            The folder; None if "auto" has found none.

        Raises:
            CheckpointError: there is none, it is damaged, or it does not fit what is prepared. Nothing has been changed then.
        """
        from .errors import CheckpointError
        from .foreign import is_foreign, load_foreign
        from .load import load, open_checkpoint
        from .loaders import begin_anew

        self.wait_for_checkpoint()
        location = load_model_func_kwargs.pop("map_location", None)
        if location not in _LOCATIONS:
            raise TypeError(
                "Unsupported optimizer map location passed, please choose one of `None`, `'cpu'`, or `'on_device'`"
            )
        asked = None if input_dir in (None, "auto") else os.path.expanduser(input_dir)
        weights_only = bool((load_kwargs or {}).get("weights_only", True))
        if asked is not None and is_foreign(Path(asked)):
            load_foreign(self, Path(asked), weights_only, **load_model_func_kwargs)
            return asked
        checkpoint = open_checkpoint(self, asked, weights_only)
        if checkpoint is None:
            if input_dir == "auto":
                return None
            raise CheckpointError(
                f"there is no complete checkpoint in {os.path.join(str(self.project_configuration.project_dir), 'checkpoints')}"
            )
        load(self, checkpoint, **load_model_func_kwargs)
        if not resume_loaders:
            begin_anew(self._dataloaders)
        return str(checkpoint.folder)

    def save_model(
        self,
        model: nn.Module,
        save_directory: str | os.PathLike[str],
        max_shard_size: int | str = "10GB",
        safe_serialization: bool = True,
    ) -> None:
        """Save the weights of `model` for other libraries to load; every process has to call this.

        Args:
            model: prepared or not.
            save_directory: receives `model.safetensors`, or `model-00001-of-00003.safetensors` and so on with an index.
            max_shard_size: bytes, or a number with a unit such as "5GB"; a larger tensor has a file of its own.
            safe_serialization: False: `pytorch_model.bin`, as `torch.save` writes it.

        Raises:
            CheckpointError: it could not be written; on every process.
        """
        from .weights import write_model
        from .writing import on_main

        whole = getattr(model, "_orig_mod", model)
        state = self.strategy.state_dict(whole)
        if any(getattr(value, "is_meta", False) for value in state.values()):
            from ..big_models.offloading import with_offloaded

            state = with_offloaded(whole, state)
        folder = Path(save_directory)
        on_main(
            self.world,
            lambda: write_model(state, folder, max_shard_size, safe_serialization),
            "the model was not saved",
        )

    def load_model(self, model: nn.Module, input_dir: str | os.PathLike[str], strict: bool = True) -> None:
        """Load what `save_model` has written, or the weights in a checkpoint, into `model`; every process has to call this.

        Raises:
            CheckpointError: there are none, or they are damaged.
            RuntimeError: they do not fit, as with `load_state_dict(strict=True)`.
        """
        from .weights import read_model
        from .writing import together

        state: dict[str, Any] = {}
        together(self.world, lambda: state.update(read_model(Path(input_dir), model)), "")
        getattr(model, "_orig_mod", model).load_state_dict(state, strict=strict)

    def register_for_checkpointing(self, *objects: Any) -> None:
        """Save and load these objects too; each has to have `state_dict` and `load_state_dict`.

        Raises:
            ValueError: one of them has not.
        """
        wrong = [
            f"Item at index {i}, `{type(item).__name__}`"
            for i, item in enumerate(objects)
            if not all(callable(getattr(item, name, None)) for name in ("state_dict", "load_state_dict"))
        ]
        if wrong:
            raise ValueError(
                "register_for_checkpointing takes objects with `state_dict` and `load_state_dict`, and these have not both: "
                + "; ".join(wrong)
            )
        self._custom_objects.extend(objects)

    def register_save_state_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call `hook(models, weights, output_dir)` before a state is saved; models whose state it takes out of `weights` are left out."""
        handle = RemovableHandle(self._save_hooks)
        self._save_hooks[handle.id] = hook
        return handle

    def register_load_state_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call `hook(models, input_dir)` before a state is loaded; models that it takes out of `models` are left alone."""
        handle = RemovableHandle(self._load_hooks)
        self._load_hooks[handle.id] = hook
        return handle

    def save_on_signal(self, *signals: Any, output_dir: str | os.PathLike[str] | None = None) -> None:
        """Save and exit with status 0 when a signal says that time is up: by default SIGTERM and SIGUSR1.

        The step in progress is finished first: it happens when a loop over a prepared loader asks for the next batch after a
        backward pass, on all processes together, whichever has received the signal.

        Args:
            *signals: names or numbers.
            output_dir: as for `save_state`.
        """
        from .stopping import DEFAULT, Stopping
        from .workers import outlive_signals

        outlive_signals()
        stopping = Stopping(self.world, lambda: self.save_and_wait(output_dir))
        stopping.begin(signals or DEFAULT)
        self.tracker.between_steps = stopping.check

    def epochs(self, count: int, start: int = 0) -> Iterator[int]:
        """`range(start, count)`; after `load_state` from the epoch in which the training was interrupted.

        Saved inside a loop over a loader, that epoch goes on; saved after the loop, it counts as done.
        """
        return self._epochs.count(start, count)

    def epoch_state(self) -> dict[str, Any]:
        """What `epochs` has come to, for a checkpoint."""
        return self._epochs.state()

    def load_epoch_state(self, state: dict[str, Any]) -> None:
        """Let the next loops over `epochs` go on from there."""
        self._epochs.load(state)

    @property
    def prepared_optimizers(self) -> list[Optimizer]:
        """The optimizers, in the order of their preparation."""
        return [optimizer for optimizer, _ in self._optimizers.values()]

    @property
    def save_iteration(self) -> int:
        """The number of the next state, with `automatic_checkpoint_naming`."""
        return self.project_configuration.iteration
