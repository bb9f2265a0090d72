"""What `fully_shard` keeps of a module, under the names of the installed torch: they are its own, and change."""

from __future__ import annotations

from typing import Any

import torch

_OF_STATE = ("_lazy_init", "_pre_forward", "_post_forward", "_root_pre_forward")
_OLDEST = "2.9"


def check() -> None:
    """Raise a RuntimeError if this torch lacks what is used of `fully_shard` beyond its documented interface."""
    try:
        missing = [name for name in _OF_STATE if not hasattr(_state_class(), name)]
    except ImportError as error:
        missing = [str(error)]
    if missing:
        raise RuntimeError(f"sharding needs parts of torch that {torch.__version__} does not have ({missing[0]}): install torch {_OLDEST} or a later one, or train data parallel")


def groups(state: Any) -> list[Any]:
    """The parameter groups of a unit; before torch 2.11 there was one at most."""
    several = getattr(state, "_fsdp_param_groups", None)
    if several is not None:
        return several  # type: ignore[no-any-return]
    return [] if state._fsdp_param_group is None else [state._fsdp_param_group]


def recover(root: Any) -> None:
    """Drop what a forward or backward that raised has left behind in the model of `root`: torch does so itself since 2.13."""
    if hasattr(root, "_reset_iter_state"):
        root._reset_iter_state()
        return
    if root._device.type != "cpu":
        torch.accelerator.synchronize(root._device)  # nothing is under way any more that these would have to wait for
    _drop(root._comm_ctx, ("all_gather_state", "reduce_scatter_state"), ("post_forward_order", "reduce_scatter_states"))
    for state in root._state_ctx.all_states:
        state._modules_to_run_forward.clear()
        state._training_state = type(state._training_state).IDLE
        for group in groups(state):
            _drop(group, _OF_A_PASS, ("_post_forward_indices",))
            group._training_state = type(group._training_state).IDLE
            group._to_sharded()
    root._state_ctx.iter_forward_root = None
    root._state_ctx.post_backward_final_callback_queued = False


_OF_A_PASS = ("_all_gather_result", "_post_reduce_event", "_all_reduce_state", "_reshard_after_forward_event", "_partial_reduce_output")


def _drop(holder: Any, values: tuple[str, ...], lists: tuple[str, ...]) -> None:
    for name in values:
        if hasattr(holder, name):
            setattr(holder, name, None)
    for name in lists:
        getattr(holder, name, []).clear()


def _state_class() -> Any:
    from torch.distributed.fsdp import fully_shard  # noqa: F401
    from torch.distributed.fsdp._fully_shard._fsdp_param_group import FSDPParamGroup
    from torch.distributed.fsdp._fully_shard._fsdp_state import FSDPState

    if not hasattr(FSDPParamGroup, "post_backward"):
        raise ImportError("FSDPParamGroup.post_backward")
    return FSDPState
