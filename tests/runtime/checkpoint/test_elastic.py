"""torchrun starts a failed training anew, and it goes on by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from accel_runtime import Accelerator

from ..training import assert_identical

SCRIPT = """
import os, sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from accel_runtime import Accelerator, ProjectConfiguration, set_seed

folder, fails_at = sys.argv[1], int(sys.argv[2])
project = ProjectConfiguration(folder, automatic_checkpoint_naming=True, total_limit=2)
accelerator = Accelerator(cpu=True, split_batches=True, project_config=project)
set_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(30, 4), torch.randn(30, 1)), batch_size=4, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
resumed = accelerator.load_state("auto")
step = accelerator.counters.get("step", 0)
for epoch in accelerator.epochs(2):
    for x, y in loader:
        optimizer.zero_grad()
        accelerator.backward(nn.functional.mse_loss(model(x), y))
        optimizer.step()
        step += 1
        accelerator.counters["step"] = step
        if step == fails_at and resumed is None and accelerator.process_index == 1:
            os._exit(17)
        if step % 3 == 0:
            accelerator.save_state()
accelerator.save_model(model, folder)
"""


@pytest.mark.slow
@pytest.mark.torchrun
def test_goes_on_after_a_process_has_died(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    for name, fails_at in (("whole", 0), ("failed", 8)):
        launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "1"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, *launch, str(script), str(tmp_path / name), str(fails_at)]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
        assert run.returncode == 0, run.stderr
    models = [torch.nn.Linear(4, 1) for _ in range(2)]
    for model, name in zip(models, ("whole", "failed"), strict=True):
        Accelerator(cpu=True).load_model(model, tmp_path / name)
    assert_identical(dict(models[1].state_dict()), dict(models[0].state_dict()))
