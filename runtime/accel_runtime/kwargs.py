"""Settings that are handed to `Accelerator`: plain dataclasses with Accelerate's names and defaults.

Environment variables, which `accel launch` sets and which are the defaults of `Accelerator`'s own arguments:

========================================  ===========================================================
`ACCELERATE_MIXED_PRECISION`              `mixed_precision`: "no", "fp16", "bf16" or "fp8" (see `default_precision`)
`ACCELERATE_TF32`                         `tf32`: "true" or "false" (see `tf32.asked_tf32`)
`ACCELERATE_GRADIENT_ACCUMULATION_STEPS`  `gradient_accumulation_steps` (see `default_accumulation_steps`)
`ACCELERATE_USE_CPU`                      `cpu` (read where the world is made)
`ACCELERATE_TORCH_DEVICE`                 the device, by name (read where the world is made)
========================================  ===========================================================
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any

PRECISIONS = ("no", "fp16", "bf16", "fp8")


def default_precision() -> str:
    """The mixed precision that the environment asks for, "no" if it does not."""
    chosen = os.environ.get("ACCELERATE_MIXED_PRECISION", "no").lower()
    return check_precision(chosen, "ACCELERATE_MIXED_PRECISION")


def check_precision(chosen: str, source: str = "mixed_precision") -> str:
    """Return `chosen`, or raise a ValueError which says what is allowed."""
    if chosen not in PRECISIONS:
        raise ValueError(f"{source} is {chosen!r}: it must be one of {', '.join(map(repr, PRECISIONS))}")
    return str(chosen)


def default_accumulation_steps() -> int:
    """The gradient accumulation steps that the environment asks for, 1 if it does not."""
    text = os.environ.get("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "1")
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"ACCELERATE_GRADIENT_ACCUMULATION_STEPS is {text!r}: it must be an integer from 1 up")
    return int(text)


@dataclass
class KwargsHandler:
    """Base of the settings which end up as keyword arguments of some torch call."""

    def to_dict(self) -> dict[str, Any]:
        """All settings, by name."""
        return copy.deepcopy(vars(self))

    def to_kwargs(self) -> dict[str, Any]:
        """The settings that differ from their defaults, by name."""
        default = type(self)()
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != getattr(default, f.name)}


@dataclass
class DataLoaderConfiguration:
    """How prepared data loaders share out their batches.

    Attributes:
        split_batches: cut each batch of the original loader among the processes, so that the global batch stays what
            the script says (exact mode). False: every process draws batches of the script's size.
        dispatch_batches: read on the main process only and send the others their part. None: for an `IterableDataset`
            in per-process mode True, otherwise False.
        even_batches: in per-process mode, repeat samples from the beginning until every process has as many.
        use_seedable_sampler: shuffle by (`data_seed` or the current seed) + epoch, whatever else drew random numbers.
        data_seed: the seed for `use_seedable_sampler`.
        non_blocking: move batches to the device asynchronously; needs pinned memory.
        use_stateful_dataloader: give loaders `state_dict` and `load_state_dict`, with the place inside the epoch; needs torchdata.
            `save_state` keeps that place in any case.
        collate: "local" collates each process's slice; "global" collates whole batches and cuts the result, for a
            `collate_fn` that looks at the whole batch; "rows" does so too, and where the result has not one row for each
            sample (several pairs of each sentence) its rows are what counts (exact mode only).
    """

    split_batches: bool = False
    dispatch_batches: bool | None = None
    even_batches: bool = True
    use_seedable_sampler: bool = False
    data_seed: int | None = None
    non_blocking: bool = False
    use_stateful_dataloader: bool = False
    collate: str = "local"

    def __post_init__(self) -> None:
        if self.collate not in ("local", "global", "rows"):
            raise ValueError(f"collate is {self.collate!r}: it must be 'local', 'global' or 'rows'")


@dataclass
class DistributedDataParallelKwargs(KwargsHandler):
    """Settings for the gradient reduction, by the names of `torch.nn.parallel.DistributedDataParallel`.

    Gradients are reduced in place by parameter hooks, so `find_unused_parameters`, `static_graph`, `check_reduction`,
    `gradient_as_bucket_view` and `dim` need no setting here and change nothing: unused parameters are always handled.

    Attributes:
        broadcast_buffers: in per-process mode, give every process the main process's buffers.
        bucket_cap_mb: megabytes of gradients that are reduced together.
        comm_hook: how gradients are compressed on the way: "no", "fp16", "bf16", "power_sgd" (low-rank factors) or "batched_power_sgd".
        comm_wrapper: the type in which PowerSGD's factors travel: "no", "fp16" or "bf16".
        comm_state_option: options of PowerSGD, by the names of torch's `PowerSGDState`.
    """

    dim: int = 0
    broadcast_buffers: bool = True
    bucket_cap_mb: int = 25
    find_unused_parameters: bool = False
    check_reduction: bool = False
    gradient_as_bucket_view: bool = False
    static_graph: bool = False
    comm_hook: str = "no"
    comm_wrapper: str = "no"
    comm_state_option: dict[str, Any] = field(default_factory=dict)


@dataclass
class GradScalerKwargs(KwargsHandler):
    """Settings for `torch.amp.GradScaler`, used with fp16."""

    init_scale: float = 65536.0
    growth_factor: float = 2.0
    backoff_factor: float = 0.5
    growth_interval: int = 2000
    enabled: bool = True


@dataclass
class AutocastKwargs(KwargsHandler):
    """Settings for `torch.autocast`."""

    enabled: bool = True
    cache_enabled: bool | None = None


@dataclass
class InitProcessGroupKwargs(KwargsHandler):
    """Settings for `torch.distributed.init_process_group`; None leaves the choice to the runtime.

    Attributes:
        backend: e.g. "nccl" or "gloo"; None: the device's own backend, and gloo for host data.
        init_method: where the processes meet; None: the launcher's environment variables.
        timeout: how long a collective may wait; None: torch's default.
    """

    backend: str | None = None
    init_method: str | None = None
    timeout: timedelta | None = None


@dataclass
class GradientAccumulationPlugin(KwargsHandler):
    """How gradients are accumulated.

    Attributes:
        num_steps: micro-batches per optimizer step.
        adjust_scheduler: in per-process mode, also tick the scheduler for the skipped optimizer steps' share.
        sync_with_dataloader: end a window at the end of the loader; False lets it run on into the next epoch.
        sync_each_batch: reduce gradients at every micro-batch: less memory under sharding, more traffic.
    """

    num_steps: int | None = None
    adjust_scheduler: bool = True
    sync_with_dataloader: bool = True
    sync_each_batch: bool = False

    def __post_init__(self) -> None:
        if self.num_steps is not None and self.num_steps < 1:
            raise ValueError(f"num_steps is {self.num_steps}: it must be an integer from 1 up")


@dataclass
class ProjectConfiguration:
    """Where a project keeps its files.

    Attributes:
        project_dir: folder for checkpoints.
        logging_dir: folder for trackers that write files; None: `project_dir`.
        automatic_checkpoint_naming: number the saved states.
        total_limit: how many numbered states to keep; None: all.
        iteration: number of the next state.
        save_on_each_node: save on each machine instead of on the main one only.
        async_save: let `save_state` write in the background unless it is told otherwise; the memory for that is taken in the first step.
    """

    project_dir: str | None = None
    logging_dir: str | None = None
    automatic_checkpoint_naming: bool = False
    total_limit: int | None = None
    iteration: int = 0
    save_on_each_node: bool = False
    async_save: bool = False

    def __post_init__(self) -> None:
        self.set_directories(self.project_dir)

    def set_directories(self, project_dir: str | None = None) -> None:
        """Set `project_dir`, and `logging_dir` with it unless it was chosen."""
        self.project_dir = project_dir
        if self.logging_dir is None:
            self.logging_dir = project_dir


@dataclass
class ProfileKwargs(KwargsHandler):
    """Settings for `torch.profiler.profile`; `output_trace_dir` is where each process writes its Chrome trace."""

    activities: list[str] | None = None
    schedule_option: dict[str, int] | None = None
    on_trace_ready: Callable[..., Any] | None = None
    record_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False
    with_flops: bool = False
    with_modules: bool = False
    output_trace_dir: str | None = None

    def build(self) -> Any:
        """The `torch.profiler.profile` of these settings.

        Raises:
            ValueError: an activity which torch does not know.
        """
        import torch.profiler as profiler

        known = {name.lower(): value for name, value in profiler.ProfilerActivity.__members__.items()}
        if unknown := [name for name in self.activities or () if name not in known]:
            raise ValueError(f"unknown profiler activities {unknown}: they must be among {sorted(known)}")
        settings = {k: v for k, v in vars(self).items() if k not in ("activities", "schedule_option", "output_trace_dir")}
        schedule = profiler.schedule(**self.schedule_option) if self.schedule_option else None
        activities = [known[name] for name in self.activities] if self.activities else None
        return profiler.profile(activities=activities, schedule=schedule, **settings)
