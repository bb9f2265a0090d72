"""The precision is that of the autocast regions, never that of a scaler that is switched off."""

from __future__ import annotations

from pathlib import Path

import pytest

from accel_migrate.migrate import migrate
from accel_migrate.project import load_project
from accel_migrate.result import Options, Result
from codemod import memory
from codemod.conftest import Files
from codemod.marked import script

PROGRAM = """\
import argparse
from contextlib import nullcontext

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--amp", default="bf16")
args = parser.parse_args()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = DataLoader(TensorDataset(torch.randn(96, 8), torch.randn(96, 1)), batch_size=32)
model = nn.Linear(8, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{setup}
for x, y in loader:
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    with {region}:
        loss = nn.functional.mse_loss(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
SCALER = "scaler = torch.amp.GradScaler(enabled=args.amp == 'fp16')"
REGION = "torch.autocast(device_type=device.type, dtype=dtype)"


def migrated(files: Files, setup: str, region: str) -> tuple[Result, str]:
    files({"train.py": PROGRAM.format(setup=setup, region=region)})
    result = migrate(load_project(Path("train.py")), Options())
    assert result.status == "changed", result.reason
    return result, result.changes[0].after


@pytest.mark.parametrize(
    ("setup", "region", "expected"),
    [
        ("dtype = torch.bfloat16 if args.amp == 'bf16' else torch.float16", REGION, "\"bf16\" if args.amp == 'bf16' else \"fp16\""),
        ("", "torch.autocast(device.type, torch.bfloat16)", '"bf16"'),
        ("", "torch.autocast('cuda')", '"fp16"'),
        ("", "torch.autocast(device.type)", '"fp16" if torch.cuda.is_available() else "bf16"'),
        ("", "torch.autocast(device.type, enabled=device.type == 'cuda')", '"fp16" if torch.cuda.is_available() else "no"'),
        ("", "torch.autocast('cpu')", '"bf16"'),
        ("dtype = {'bf16': torch.bfloat16, 'fp16': torch.float16, 'none': torch.float32}[args.amp]", REGION, '{"bf16": "bf16", "fp16": "fp16", "none": "no"}[args.amp]'),
        ("dtype = getattr(torch, {'bf16': 'bfloat16', 'fp16': 'float16'}[args.amp])", REGION, '{"bf16": "bf16", "fp16": "fp16"}[args.amp]'),
        ("dtype = getattr(torch, args.amp)", REGION, '{"float32": "no", "bfloat16": "bf16", "float16": "fp16"}[args.amp]'),
        (
            "if args.amp == 'bf16':\n    dtype = torch.bfloat16\nelif args.amp == 'fp16':\n    dtype = torch.float16\nelse:\n    dtype = torch.float32", REGION,
            "\"bf16\" if args.amp == 'bf16' else \"fp16\" if args.amp == 'fp16' else \"no\"",
        ),
        ("", "torch.autocast(device.type, dtype=torch.bfloat16, enabled=args.amp != 'none')", "\"bf16\" if args.amp != 'none' else \"no\""),
        ("", "torch.autocast(device.type, dtype=torch.float16, enabled=scaler.is_enabled())", "\"fp16\" if args.amp == 'fp16' else \"no\""),
        ("", "nullcontext() if args.amp == 'none' else torch.autocast(device.type, dtype=torch.bfloat16)", "\"bf16\" if not args.amp == 'none' else \"no\""),
    ],
)  # fmt: skip
def test_the_regions_decide(files: Files, setup: str, region: str, expected: str) -> None:
    result, text = migrated(files, f"{SCALER}\n{setup}", region)
    assert f"Accelerator(mixed_precision={expected}, split_batches=True)" in text
    assert not result.findings


@pytest.mark.parametrize(
    ("setup", "region", "chosen"),
    [
        ("import settings\ndtype = settings.dtype()", REGION, '"fp16"'),
        ("import settings", "torch.autocast(device.type, dtype=torch.bfloat16, enabled=settings.on())", '"bf16"'),
        ("name = 'bfloat16'\nexec(open('settings.txt').read())\ndtype = getattr(torch, name)", REGION, '"bf16"'),
    ],
)
def test_what_is_not_known_is_reported_with_what_was_chosen(files: Files, setup: str, region: str, chosen: str) -> None:
    result, text = migrated(files, f"{SCALER}\n{setup}", region)
    assert f"mixed_precision={chosen}, " in text
    [finding] = [f for f in result.findings if f.rule == "native-amp"]
    assert f"mixed_precision={chosen} was chosen" in finding.message


RESUMED = """\
amp = len(sys.argv) > 1
scaler = torch.amp.GradScaler("cuda", enabled=amp)
{load}
for x, y in loader:
    with torch.autocast("cuda", enabled=amp):
        loss = F.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


@pytest.mark.parametrize(
    ("load", "becomes"),
    [
        ("scaler.load_state_dict(state)", "if accelerator.scaler:\n    accelerator.scaler.load_state_dict(state)"),
        ("if scaler:\n    scaler.load_state_dict(state)", "if accelerator.scaler:\n    accelerator.scaler.load_state_dict(state)"),
    ],
)
def test_the_state_of_a_scaler_that_may_be_off_is_loaded_under_a_condition(load: str, becomes: str) -> None:
    text = memory.after(memory.migrated("import sys\n" + script(RESUMED.format(load=load))))
    assert f"\n{becomes}\n" in text


ELSEWHERE = """\
import torch
import settings
from torch import nn
from apex import amp
from torch.utils.data import DataLoader, TensorDataset
class Job:
    def __init__(self, chosen):
        self.level = settings.read(chosen)
        self.use = settings.use(chosen)
def run(job):
    model = nn.Linear(8, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if job.use:
        model, optimizer = amp.initialize(model, optimizer, opt_level=job.level)
    for x, y in DataLoader(TensorDataset(torch.randn(64, 8), torch.randint(2, (64,))), batch_size=16):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
device = torch.device("cuda")
torch.zeros(1).to(device)
run(Job(1))
"""


def test_a_level_of_apex_that_is_decided_later_is_reported() -> None:
    result = memory.migrated(ELSEWHERE)
    assert any(f.rule == "apex-amp" and "not known where" in f.message for f in result.findings)
    assert 'Accelerator(mixed_precision="fp16", split_batches=True)' in memory.after(result)
