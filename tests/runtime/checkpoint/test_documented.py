"""The program in the documentation resumes by itself."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from accel_runtime.checkpoint.weights import read_model

from ..ranks import run_ranks
from ..training import assert_identical
from .documented import program


class Interrupted(Exception):
    """Stands for whatever ends a training."""


def train(folder: Path, at: int = 0, resume: str = "auto") -> str:
    """Run the program, which fails in step `at`; its status."""
    step, steps = torch.optim.AdamW.step, []

    def failing(self: Any, *args: Any, **kwargs: Any) -> Any:
        steps.append(1)
        if len(steps) == at:
            raise Interrupted
        return step(self, *args, **kwargs)

    torch.optim.AdamW.step = failing  # type: ignore[method-assign]
    sys.argv = ["train.py", "--output", str(folder), "--resume", resume]
    os.environ["ACCELERATE_USE_CPU"] = "true"
    try:
        exec(compile(program(), "train.py", "exec"), {"__name__": "__main__"})
    except Interrupted:
        return "interrupted"
    return f"{len(steps)} steps"


@pytest.mark.parametrize("n", [1, 2])
def test_interrupted_and_started_again_it_ends_like_the_undisturbed_run(tmp_path: Path, n: int) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert run_ranks(lambda: train(whole), n)[0] == "39 steps"
    assert run_ranks(lambda: train(parts, at=25), n)[0] == "interrupted"
    assert run_ranks(lambda: train(parts), n)[0] == "19 steps"
    assert_identical(read_model(parts), read_model(whole))


def test_a_new_start_and_one_checkpoint_can_be_asked_for(tmp_path: Path) -> None:
    assert run_ranks(lambda: train(tmp_path), 1) == ["39 steps"]
    assert run_ranks(lambda: train(tmp_path, resume=str(tmp_path / "checkpoints" / "checkpoint_1")), 1) == ["19 steps"]
    assert run_ranks(lambda: train(tmp_path, resume="none"), 1) == ["39 steps"]
