"""Experiment trackers: where `Accelerator.log` sends its values.

By name: "tensorboard", "wandb", "jsonl", "csv", "all" (those of the first two that are installed); or any subclass of
`GeneralTracker`, as an object or registered with `register_tracker_class`. Trackers live on the main process, unless
they say `main_process_only = False`.
"""

from __future__ import annotations

import importlib.util
import os
import warnings
from typing import TYPE_CHECKING, Any

from .trackers import CSVTracker, GeneralTracker, JSONLinesTracker, TensorBoardTracker, Values, WandBTracker

if TYPE_CHECKING:
    from .accelerator import Accelerator

LOGGER_TYPE_TO_CLASS: dict[str, type[GeneralTracker]] = {
    tracker.name: tracker for tracker in (TensorBoardTracker, WandBTracker, JSONLinesTracker, CSVTracker)
}


def register_tracker_class(tracker_class: type[GeneralTracker]) -> None:
    """Make `tracker_class` available by its name.

    Raises:
        ValueError: no subclass of `GeneralTracker`, or without `name` or `requires_logging_directory`.
    """
    if not (isinstance(tracker_class, type) and issubclass(tracker_class, GeneralTracker)):
        raise ValueError(f"a tracker class must be a subclass of GeneralTracker, and this is {tracker_class!r}")
    if missing := [name for name in ("name", "requires_logging_directory") if not hasattr(tracker_class, name)]:
        raise ValueError(f"{tracker_class.__name__} lacks {' and '.join(missing)}: define them in the class")
    if tracker_class.name in LOGGER_TYPE_TO_CLASS:
        warnings.warn(f"tracker {tracker_class.name!r} is replaced by {tracker_class.__name__}", UserWarning, stacklevel=2)
    LOGGER_TYPE_TO_CLASS[tracker_class.name] = tracker_class


def get_available_trackers() -> list[str]:
    """The names of the tracking libraries that are installed."""
    return [name for name in ("tensorboard", "wandb") if importlib.util.find_spec(name) is not None]


def filter_trackers(log_with: Any, logging_dir: str | os.PathLike[str] | None = None) -> list[Any]:
    """The trackers that `log_with` names (one or several names or objects), each once.

    Raises:
        ValueError: an unknown name, or a tracker that needs a `logging_dir` and has none.
    """
    asked = list(log_with) if isinstance(log_with, (list, tuple)) else [] if log_with is None else [log_with]
    chosen: list[Any] = []
    for each in asked:
        if isinstance(each, GeneralTracker):
            chosen.append(each)
            continue
        name = str(getattr(each, "value", each))
        for one in get_available_trackers() if name == "all" else [name]:
            _check(one, logging_dir)
            if one not in chosen:
                chosen.append(one)
    return chosen


def start_trackers(accelerator: Accelerator, project_name: str, config: Values | None, init_kwargs: dict[str, Any]) -> list[GeneralTracker]:
    """Make and start what `accelerator.log_with` asks for; on other processes only trackers for all processes."""
    trackers = []
    for each in filter_trackers(accelerator.log_with, accelerator.logging_dir):
        kind: Any = each if isinstance(each, GeneralTracker) else LOGGER_TYPE_TO_CLASS[each]
        if kind.main_process_only and not accelerator.is_main_process:
            continue
        tracker = kind if kind is each else _make(kind, project_name, accelerator.logging_dir, init_kwargs.get(each, {}))
        tracker.start()
        if config is not None:
            tracker.store_init_configuration(config)
        trackers.append(tracker)
    return trackers


def find_tracker(accelerator: Accelerator, name: str, unwrap: bool = False) -> Any:
    """The started tracker called `name`, or with `unwrap` its library's object; where none was started one that does nothing.

    Raises:
        ValueError: others were started, but not this one.
    """
    if not accelerator.trackers:
        return GeneralTracker(_blank=True)
    for tracker in accelerator.trackers:
        if tracker.name == name:
            return tracker.tracker if unwrap else tracker
    raise ValueError(f"no tracker {name!r} was started: there are {[tracker.name for tracker in accelerator.trackers]}")


def _check(name: str, logging_dir: str | os.PathLike[str] | None) -> None:
    if name not in LOGGER_TYPE_TO_CLASS:
        raise ValueError(f"unknown tracker {name!r}: choose among {sorted(LOGGER_TYPE_TO_CLASS)}, or use register_tracker_class")
    if LOGGER_TYPE_TO_CLASS[name].requires_logging_directory and logging_dir is None:
        raise ValueError(f"Logging with `{name}` requires a `logging_dir`: pass project_dir= to Accelerator")


def _make(kind: Any, project_name: str, logging_dir: str | None, options: Values) -> GeneralTracker:
    return kind(project_name, logging_dir, **options) if kind.requires_logging_directory else kind(project_name, **options)
