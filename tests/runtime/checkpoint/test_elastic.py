"""The launcher starts a failed training anew, and it goes on by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from accel_runtime.checkpoint.weights import read_model

from ..training import assert_identical
from .documented import program

FAILS_ONCE = """
def fail_once():
    import os, torch
    plain, steps = torch.optim.AdamW.step, []
    def failing(self, *args, **kwargs):
        steps.append(1)
        if len(steps) == 25 and os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            os._exit(17)
        return plain(self, *args, **kwargs)
    torch.optim.AdamW.step = failing
fail_once()
"""


@pytest.mark.slow
@pytest.mark.torchrun
def test_goes_on_after_a_process_has_died(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    launch = [sys.executable, "-m", "accel_runtime.launch", "--cpu", "--num_processes", "2", "--max_restarts", "1"]
    said = {}
    for name, start in (("whole", ""), ("failed", FAILS_ONCE)):
        script = tmp_path / f"{name}.py"
        script.write_text(start + program())
        command = [*launch, str(script), "--output", str(tmp_path / name)]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
        assert run.returncode == 0, run.stderr
        said[name] = run.stdout
    assert "going on" not in said["whole"]
    assert f"going on from {tmp_path / 'failed' / 'checkpoints' / 'checkpoint_1'} after 20 steps" in said["failed"]
    assert_identical(read_model(tmp_path / "failed"), read_model(tmp_path / "whole"))
