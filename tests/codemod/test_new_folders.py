"""Folders that a program makes: one process makes those that must not be there yet."""

from __future__ import annotations

import pytest

from codemod.marked import STEP, script
from codemod.memory import after, migrated

TEXT = """\
import os
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader

{made}
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in DataLoader(data, batch_size=4):
    loss = nn.functional.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
GUARDED = ["os.makedirs('runs')", "Path('runs').mkdir(parents=True, exist_ok=fresh)", "os.makedirs('runs', exist_ok=False)"]


@pytest.mark.parametrize("made", GUARDED)
def test_one_process_makes_a_folder_that_may_be_there_already(made: str) -> None:
    assert f"is_main_process:\n    {made}\n" in after(migrated(TEXT.format(made=made)))


def test_all_may_make_one_that_may_exist() -> None:
    assert "\nos.makedirs('runs', exist_ok=True)\n" in after(migrated(TEXT.format(made="os.makedirs('runs', exist_ok=True)")))


@pytest.mark.parametrize("opened", ["Path('log.txt').open('w')", "open('log.txt', 'wt')", "Path('log.txt').open(mode='a')"])
def test_one_process_opens_a_file_for_writing(opened: str) -> None:
    made = f"with {opened} as file:\n    file.write('begun')"
    assert f"is_main_process:\n    with {opened} as file:\n" in after(migrated(TEXT.format(made=made)))


def test_all_read_a_file() -> None:
    made = "with Path('settings.txt').open('rt') as file:\n    settings = file.read()"
    assert f"\n{made}\n" in after(migrated(TEXT.format(made=made)))


CHECKED = """\
import os, sys
from pathlib import Path
out = Path("runs")
{check}
{make}
"""


@pytest.mark.parametrize(
    ("check", "make"),
    [
        ('if os.path.exists("runs"):\n    raise SystemExit("there")', 'os.makedirs("runs")'),
        ('if out.exists():\n    print("there")\n    sys.exit(1)', "out.mkdir(parents=True, exist_ok=True)"),
    ],
)
def test_every_process_looks_before_one_makes_the_folder(check: str, make: str) -> None:
    text = after(migrated(script(CHECKED.format(check=check, make=make) + STEP)))
    made, waited, looked = (text.index(part) for part in (make, "accelerator.wait_for_everyone()", check.partition("\n")[0]))
    assert text.index("accelerator = Accelerator(") < looked < waited < made


def test_a_folder_that_may_be_there_needs_no_barrier() -> None:
    check = 'if not os.path.exists("runs"):\n    print("new")'
    assert "wait_for_everyone" not in after(migrated(script(CHECKED.format(check=check, make='os.makedirs("runs")') + STEP)))
