"""How many processes share what: the sizes of Accelerate's `ParallelismConfig`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

_ELSEWHERE = {"cp_size": "context parallelism", "sp_size": "sequence parallelism of DeepSpeed"}


@dataclass
class ParallelismConfig:
    """The sizes multiply to the number of processes; those that are None are read from `PARALLELISM_CONFIG_` and their names.

    Attributes:
        dp_replicate_size: groups of processes that each hold a whole model and get their own part of each batch.
        dp_shard_size: processes over which weights are sharded, with their own part of each batch.
        tp_size: processes that share each layer, and the batch (tensor parallelism).
        tp_plan: names of layers, "*" for one part of a name, and how each is split: "colwise", "rowwise", "colwise_rep" (whole
            outputs), "rowwise_rep" (whole inputs), "embedding_rowwise", "replicate". None: the model's own `_tp_plan`, else the
            attention and MLP layers with the usual names, as far as they compute the same when they are split.
        cp_size, sp_size: only 1.

    Raises:
        ValueError: a size below 1, or of something that is not there.
    """

    dp_replicate_size: int | None = None
    dp_shard_size: int | None = None
    tp_size: int | None = None
    cp_size: int | None = None
    sp_size: int | None = None
    tp_plan: dict[str, str] | None = None
    tp_handler: Any = None

    def __post_init__(self) -> None:
        for name in ("dp_replicate_size", "dp_shard_size", "tp_size", "cp_size", "sp_size"):
            asked = getattr(self, name)
            text = str(os.environ.get(f"PARALLELISM_CONFIG_{name.upper()}", "1") if asked is None else asked)
            if not text.isdecimal() or int(text) < 1:
                raise ValueError(f"{name} is {text}: it must be an integer from 1 up")
            if name in _ELSEWHERE and int(text) > 1:
                raise ValueError(f"{name} is {text}: {_ELSEWHERE[name]} is not offered; it must be 1")
            setattr(self, name, int(text))

    @property
    def total_size(self) -> int:
        """Processes that the sizes need."""
        return self.data_parallel_size * self.tp_size  # type: ignore[operator]

    @property
    def data_parallel_size(self) -> int:
        """Processes, or groups of them, that share out each batch."""
        return self.dp_replicate_size * self.dp_shard_size  # type: ignore[operator]

    @property
    def tp_enabled(self) -> bool:
        return self.tp_size > 1  # type: ignore[operator]

    @property
    def dp_shard_enabled(self) -> bool:
        return self.dp_shard_size > 1  # type: ignore[operator]

    @property
    def dp_replicate_enabled(self) -> bool:
        return self.dp_replicate_size > 1  # type: ignore[operator]

    def check(self, processes: int) -> None:
        """Raise a ValueError unless the sizes multiply to the number of processes."""
        if self.total_size != processes:
            raise ValueError(
                f"dp_replicate_size {self.dp_replicate_size} x dp_shard_size {self.dp_shard_size} x tp_size {self.tp_size} is "
                f"{self.total_size}, and there are {processes} processes: let the sizes multiply to their number"
            )


def default_parallelism() -> ParallelismConfig | None:
    """What the environment asks for with `ACCELERATE_USE_PARALLELISM_CONFIG`, if it does."""
    from .world import flag

    return ParallelismConfig() if flag("ACCELERATE_USE_PARALLELISM_CONFIG") else None
