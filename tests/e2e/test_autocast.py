"""bfloat16 by autocast with a scaler that is on for float16 only: it stays bfloat16."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from accel_migrate.verify.job import Job, Run
from accel_migrate.verify.warm import ForkingRunner
from e2e.compare import compare_runs
from e2e.migrated import migrate

PROGRAM = """\
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

p = argparse.ArgumentParser()
p.add_argument("--amp", default="bf16", choices=["bf16", "fp16", "none"])
args = p.parse_args()
torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = DataLoader(TensorDataset(torch.randn(96, 8), torch.randn(96, 1)), batch_size=32)
model = nn.Linear(8, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
dtype = torch.bfloat16 if args.amp == "bf16" else torch.float16
scaler = torch.amp.GradScaler(enabled=args.amp == "fp16")
for x, y in loader:
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    with torch.autocast(device_type=device.type, dtype=dtype):
        out = model(x)
        loss = nn.functional.mse_loss(out, y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(out.dtype, loss.item())
"""


def test_a_scaler_that_is_off_leaves_bfloat16(runner: ForkingRunner, run_once: Callable[..., Run], tmp_path: Path) -> None:
    folder = tmp_path / "original"
    folder.mkdir()
    (folder / "train.py").write_text(PROGRAM)
    original = Job(folder, "train.py")
    migration = migrate(folder, "train.py", tmp_path)
    assert migration.migrated, migration.printed
    expected = run_once(original)
    found = runner.run(Job(migration.folder, "train.py"), 1)
    assert found.lines == expected.lines
    assert all("torch.bfloat16" in str(line) for line in found.lines)
    verdict = compare_runs(expected, found, run_once(original, reverse_batches=True))
    assert verdict.same, verdict
