"""Run programs of the skill's pages on one process and on two, by fork."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from typing import Any

import torch

from runtime.ranks import run_ranks

SECONDS = 90


def results(program: str, processes: int, seconds: float = SECONDS) -> list[Any]:
    """What `result` is on each process at the end of `program`, which runs in a folder of its own.

    Raises:
        RanksFailed: a process failed or did not come to the end.
    """
    with tempfile.TemporaryDirectory() as folder:
        return run_ranks(lambda: _run(program, folder), processes, timeout=seconds)


def same(one: Any, other: Any) -> bool:
    """Equal up to rounding."""
    if one is None or other is None:
        return one is other
    if isinstance(one, str):
        return bool(one == other)
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    ours, theirs = torch.as_tensor(one).double(), torch.as_tensor(other).double()
    return ours.shape == theirs.shape and torch.allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def _run(program: str, folder: str) -> Any:
    os.chdir(folder)
    names: dict[str, Any] = {"__name__": "__main__", "PROGRAM": program}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(program, "train.py", "exec"), names)
    return names.get("result")
