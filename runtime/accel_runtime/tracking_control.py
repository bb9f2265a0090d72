"""Trackers of an experiment: methods of `Accelerator`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .state import AcceleratorState


class TrackingControl:
    """What `Accelerator` offers to log figures; the trackers themselves are in `trackers`."""

    state: AcceleratorState
    trackers: list[Any]
    finish_checkpoint: Callable[[], None]

    def init_trackers(self, project_name: str, config: dict[str, Any] | None = None, init_kwargs: dict[str, Any] | None = None) -> None:
        """Start the trackers of `log_with`, on the main process."""
        from .tracking import start_trackers

        self.trackers = start_trackers(self, project_name, config, init_kwargs or {})

    def get_tracker(self, name: str, unwrap: bool = False) -> Any:
        """The tracker called `name`, or what it wraps."""
        from .tracking import find_tracker

        return find_tracker(self, name, unwrap)

    def log(self, values: dict[str, Any], step: int | None = None, log_kwargs: dict[str, Any] | None = None) -> None:
        """Hand `values` to all trackers."""
        for tracker in self.trackers:
            tracker.log(values, step=step, **(log_kwargs or {}).get(tracker.name, {}))

    def end_training(self) -> None:
        """Finish the checkpoint that is being written and the trackers, and leave the process group."""
        self.finish_checkpoint()
        for tracker in self.trackers:
            tracker.finish()
        self.state.destroy_process_group()
