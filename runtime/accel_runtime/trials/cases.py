"""Which trainings a machine can run, and how each is launched. A new strategy is a new entry."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator
from dataclasses import dataclass

from ..settings.offered import offered

WIDTH = 32
"""Values between the layers of the model that is trained."""


@dataclass(frozen=True)
class Case:
    """One launch.

    Attributes:
        name: the strategy, as in the table.
        processes: how many.
        options: those of `accel launch`.
    """

    name: str
    processes: int
    options: tuple[str, ...]


def _tensor_parallel(processes: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Groups as large as the width of the trials' layers can be divided among; copies of the weights, if there are several groups."""
    size = math.gcd(processes, WIDTH)
    if size > 1:
        copies = ("--parallelism_config_dp_replicate_size", str(processes // size)) if size < processes else ()
        options = ("--use_parallelism_config", "--parallelism_config_tp_size", str(size), *copies)
        yield f"tensor parallel, groups of {size}", options


def cases(devices: int, processes: int, cpu: bool) -> Iterator[Case]:
    """All cases.

    Args:
        devices: accelerators of this machine.
        processes: how many the strategies of several processes get.
        cpu: train on the CPU even where there are devices.
    """
    where = ("--cpu",) if cpu or processes > devices else ()
    yield Case("one process", 1, ("--cpu",) if cpu else ())
    several = [("data parallel", ())]
    if offered("use_fsdp"):
        several += [
            ("FSDP, fully sharded", ("--use_fsdp",)),
            ("FSDP, weights kept for backward", ("--use_fsdp", "--fsdp_reshard_after_forward", "false")),
        ]
    if offered("use_parallelism_config"):
        several += _tensor_parallel(processes)
        if processes > 1:
            options = ("--use_parallelism_config", "--parallelism_config_cp_size", str(processes))
            several.append((f"context parallel, groups of {processes}", options))
    if offered("use_deepspeed") and importlib.util.find_spec("deepspeed") is not None:
        several += [
            (f"DeepSpeed, ZeRO {stage}", ("--use_deepspeed", "--zero_stage", str(stage))) for stage in (1, 2, 3)
        ]
    if importlib.util.find_spec("torchao") is not None:
        several.append(("data parallel, float8", ("--mixed_precision", "fp8")))
    for name, options in several:
        yield Case(name, processes, (*where, *options))
