"""How many processes share what: the sizes of Accelerate's `ParallelismConfig`."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

_SIZES = ("pp_size", "dp_replicate_size", "dp_shard_size", "cp_size", "sp_size", "tp_size")
"""In the order of the mesh: neighbours in the last dimension are neighbours among the processes."""
_STRATEGIES = ("allgather", "alltoall")
_ATTENTIONS = ("sdpa", "flash_attention_2", "flash_attention_3")


@dataclass
class TorchContextParallelConfig:
    """How the processes that share a sequence exchange keys and values.

    Attributes:
        cp_comm_strategy: "allgather" (each has all of them for a while) or "alltoall" (they go round, a part at a time). None: what
            `PARALLELISM_CONFIG_CP_COMM_STRATEGY` says, else "allgather".

    Raises:
        ValueError: another strategy.
    """

    cp_comm_strategy: str | None = None

    def __post_init__(self) -> None:
        chosen = self.cp_comm_strategy or os.environ.get("PARALLELISM_CONFIG_CP_COMM_STRATEGY", "allgather")
        if chosen not in _STRATEGIES:
            raise ValueError(
                f"Invalid cp_comm_strategy: {chosen}; it must be one of {', '.join(map(repr, _STRATEGIES))}"
            )
        self.cp_comm_strategy = chosen


@dataclass
class DeepSpeedSequenceParallelConfig:
    """How DeepSpeed's sequence parallelism is set up; for scripts that name it, since `sp_size` above 1 is not offered.

    Raises:
        ValueError: an attention that DeepSpeed does not split.
    """

    sp_seq_length: int | None = None
    sp_seq_length_is_variable: bool | None = None
    sp_attn_implementation: str | None = None

    def __post_init__(self) -> None:
        if self.sp_seq_length_is_variable is None:
            self.sp_seq_length_is_variable = self.sp_seq_length is None
        self.sp_attn_implementation = self.sp_attn_implementation or "sdpa"
        if self.sp_attn_implementation not in _ATTENTIONS:
            raise ValueError(
                f"Invalid sp_attn_implementation: {self.sp_attn_implementation}; it must be one of {', '.join(_ATTENTIONS)}"
            )


@dataclass
class TorchTensorParallelConfig:
    """Tensor parallelism has no settings besides the plan; for scripts that name it."""

    enable_async_tp: bool = False

    def __post_init__(self) -> None:
        if self.enable_async_tp:
            raise ValueError("enable_async_tp=True is not offered: leave it out")


@dataclass
class ParallelismConfig:
    """The sizes multiply to the number of processes; those that are None are read from `PARALLELISM_CONFIG_` and their names.

    Attributes:
        dp_replicate_size: groups of processes that each hold a whole model and get their own part of each batch.
        dp_shard_size: processes over which weights are sharded, with their own part of each batch.
        tp_size: processes that share each layer, and the batch (tensor parallelism).
        tp_plan: names of layers, "*" for one part of a name, and how each is split: "colwise", "rowwise", "colwise_rep" (whole
            outputs), "rowwise_rep" (whole inputs), "embedding_rowwise", "replicate", "replicated_with_grad_allreduce". None: the model's own `_tp_plan`, else the
            attention and MLP layers with the usual names, as far as they compute the same when they are split.
        sequence_parallel: between the split layers of the model's blocks, each of the `tp_size` processes has a part of the tokens. A plan
            which says "sequence_parallel" of a module turns it on, too.
        cp_size: processes that share each sequence (context parallelism), and the batch; see `Accelerator.maybe_context_parallel`.
        cp_handler: how they exchange keys and values; all of them are gathered either way.
        sp_size: only 1.
        pp_size: stages of a pipeline, one on each process, of which `dp_replicate_size` copies share out the batches; see
            `Accelerator.prepare_pipeline`.

    Raises:
        ValueError: a size below 1, or of something that is not there.
    """

    dp_replicate_size: int | None = None
    dp_shard_size: int | None = None
    tp_size: int | None = None
    cp_size: int | None = None
    sp_size: int | None = None
    tp_plan: dict[str, str] | None = None
    sequence_parallel: bool = False
    tp_handler: TorchTensorParallelConfig | None = None
    cp_backend: str | None = None
    cp_handler: TorchContextParallelConfig | None = None
    sp_backend: str | None = None
    sp_handler: DeepSpeedSequenceParallelConfig | None = None
    device_mesh: Any = field(default=None, repr=False)
    pp_size: int | None = None

    def __post_init__(self) -> None:
        for name in _SIZES:
            asked = getattr(self, name)
            text = str(os.environ.get(f"PARALLELISM_CONFIG_{name.upper()}", "1") if asked is None else asked)
            if not text.isdecimal() or int(text) < 1:
                raise ValueError(f"{name} is {text}: it must be an integer from 1 up")
            setattr(self, name, int(text))
        if self.cp_backend not in (None, "torch"):
            raise ValueError(f"cp_backend is {self.cp_backend!r}: it must be 'torch'")
        if self.cp_enabled and self.cp_handler is None:
            self.cp_handler = TorchContextParallelConfig()

    @property
    def total_size(self) -> int:
        """Processes that the sizes need."""
        return self.data_parallel_size * self.non_data_parallel_size

    @property
    def data_parallel_size(self) -> int:
        """Processes, or groups of them, that share out each batch."""
        return self.dp_replicate_size * self.dp_shard_size  # type: ignore[operator]

    @property
    def non_data_parallel_size(self) -> int:
        """Processes that work on the same part of a batch."""
        return self.tp_size * self.cp_size * self.sp_size * self.pp_size  # type: ignore[operator]

    @property
    def dp_replicate_enabled(self) -> bool:
        return self.dp_replicate_size > 1  # type: ignore[operator]

    @property
    def dp_shard_enabled(self) -> bool:
        return self.dp_shard_size > 1  # type: ignore[operator]

    @property
    def cp_enabled(self) -> bool:
        return self.cp_size > 1  # type: ignore[operator]

    @property
    def sp_enabled(self) -> bool:
        return self.sp_size > 1  # type: ignore[operator]

    @property
    def tp_enabled(self) -> bool:
        return self.tp_size > 1  # type: ignore[operator]

    @property
    def pp_enabled(self) -> bool:
        return self.pp_size > 1  # type: ignore[operator]

    @property
    def active_mesh_dims(self) -> list[str]:
        """The dimensions of the mesh, those of size 1 left out."""
        return [name.removesuffix("_size") for name in _SIZES if getattr(self, name) > 1]

    @property
    def dp_dim_names(self) -> list[str]:
        """Dimensions over which batches are shared out."""
        return self._active("dp_replicate", "dp_shard")

    @property
    def non_dp_dim_names(self) -> list[str]:
        """Dimensions whose processes work on the same part of a batch."""
        return self._active("pp", "cp", "sp", "tp")

    @property
    def dp_shard_cp_dim_names(self) -> list[str]:
        """Dimensions over which weights are sharded."""
        return self._active("dp_shard", "cp")

    @property
    def dp_cp_dim_names(self) -> list[str]:
        """Dimensions over which gradients are averaged."""
        return self._active("dp_replicate", "dp_shard", "cp")

    @property
    def fsdp_dim_names(self) -> list[str]:
        """Dimensions of the mesh that `fully_shard` gets."""
        return [*self._active("dp_replicate"), "dp_shard_cp"]

    def build_device_mesh(self, device_type: str) -> Any:
        """Torch's mesh of all processes by these sizes, with the joint dimensions "dp", "dp_shard_cp" and "dp_cp"; None for one process."""
        from torch.distributed.device_mesh import init_device_mesh

        names, sizes = self._get_mesh()
        if not names:
            return None
        mesh = init_device_mesh(device_type, sizes, mesh_dim_names=names)
        for joint, parts in (
            ("dp", self.dp_dim_names),
            ("dp_shard_cp", self.dp_shard_cp_dim_names),
            ("dp_cp", self.dp_cp_dim_names),
        ):
            if parts:
                mesh[parts]._flatten(joint)
        return mesh

    def get_device_mesh(self, device_type: str | None = None) -> Any:
        """The mesh of `build_device_mesh`, made once.

        Raises:
            ValueError: it has not been made, and no device type is given.
        """
        if self.device_mesh is None:
            if device_type is None:
                raise ValueError("there is no device mesh yet: give the device type, such as get_device_mesh('cuda')")
            self.device_mesh = self.build_device_mesh(device_type)
        return self.device_mesh

    def check(self, processes: int) -> None:
        """Raise a ValueError unless the sizes multiply to the number of processes."""
        if self.sp_enabled:
            raise ValueError(
                f"sp_size is {self.sp_size}: sequence parallelism of DeepSpeed is not offered; cp_size shares sequences, too"
            )
        beside = [name for name in _SIZES[2:] if getattr(self, name) > 1]
        if self.pp_enabled and beside:
            raise ValueError(f"pp_size is {self.pp_size} and {beside[0]} {getattr(self, beside[0])}: pipelines go with dp_replicate_size only; leave one out")
        if self.total_size != processes:
            sizes = " x ".join(f"{name} {getattr(self, name)}" for name in _SIZES if name not in ("pp_size", "cp_size", "sp_size") or getattr(self, name) > 1)
            raise ValueError(
                f"{sizes} is {self.total_size}, and there are {processes} processes: let the sizes multiply to their number"
            )

    def _active(self, *names: str) -> list[str]:
        return [name for name in names if getattr(self, f"{name}_size") > 1]

    def _get_mesh(self) -> tuple[tuple[str, ...], tuple[int, ...]]:
        names = tuple(self.active_mesh_dims)
        return names, tuple(getattr(self, f"{name}_size") for name in names)


def default_parallelism() -> ParallelismConfig | None:
    """What the environment asks for with `ACCELERATE_USE_PARALLELISM_CONFIG`, if it does."""
    from .world import flag

    return ParallelismConfig() if flag("ACCELERATE_USE_PARALLELISM_CONFIG") else None
