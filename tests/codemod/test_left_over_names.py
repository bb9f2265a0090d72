"""Names that stand for nothing, imports of what replaces a single read, sums in place through which gradients pass."""

from __future__ import annotations

import pytest

from accel_migrate.migrate import migrate
from accel_migrate.project import load_project
from accel_migrate.result import Options
from codemod.conftest import Files
from codemod.marked import STEP, script
from codemod.memory import after, migrated


def test_what_is_thrown_away_is_not_prepared() -> None:
    load = "def load(net, opt):\n    return net, opt, 0.1, 3\n\n_, optimizer, _, epoch = load(model, optimizer)\n"
    text = after(migrated(script(load + STEP)))
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in text


def test_a_device_that_is_read_once_in_a_file_of_its_own_brings_its_import(files: Files) -> None:
    net = """
import torch
from torch import nn

def shifted(x):
    device = torch.device("cuda")
    return x + torch.arange(0, 8, device=device)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        return self.head(shifted(x))
"""
    top = "from net import Net\n\nmodel = Net()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    folder = files({"train.py": script(top + STEP), "net.py": net})
    changes = migrate(load_project(folder / "train.py"), Options()).changes
    text = next(c.after for c in changes if c.source.path.name == "net.py")
    assert "device=PartialState().device)" in text and "import PartialState" in text


SUMMED = """
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        z = self.head(x)
        moments = z.T @ z
        {summed}
        return moments.pow(2).sum()

dist.init_process_group("nccl")
model = nn.parallel.DistributedDataParallel(Net().cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data))
for x in loader:
    loss = model(x.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_sum_in_place_keeps_the_gradient_that_passes_it() -> None:
    text = after(migrated(SUMMED.format(summed="dist.all_reduce(moments)")))
    assert "accelerator.use_distributed:\n            dist.all_reduce(moments)\n" in text


def test_a_setting_of_a_module_that_looks_at_all_of_its_variables_stays() -> None:
    text = SUMMED.format(summed="pass").replace('dist.init_process_group("nccl")', 'backend = "nccl"\nsettings = dict(globals())\ndist.init_process_group(backend)')
    assert '\nbackend = "nccl"\n' in after(migrated(text))
    assert "backend" not in after(migrated(text.replace("settings = dict(globals())\n", "")))


def test_a_file_that_stays_open_brings_the_import_of_where_the_others_write(files: Files) -> None:
    log = "class Log:\n    def __init__(self, path):\n        self.file = open(path, 'a')\n\n    def say(self, text):\n        self.file.write(text)\n"
    folder = files({"train.py": script("from log import Log\nlog = Log('run.log')\n" + STEP + "    log.say(str(loss.item()))\n"), "log.py": log})
    changes = migrate(load_project(folder / "train.py"), Options()).changes
    text = next(c.after for c in changes if c.source.path.name == "log.py")
    assert "else os.devnull" in text and text.startswith(("import os\n", "from accel_runtime import PartialState\nimport os\n"))


FILLED = """\
import sys
import torch.distributed as dist
from yacs.config import CfgNode
cfg = CfgNode()
cfg.distributed = False
cfg.merge_from_file(sys.argv[1])
if cfg.distributed:
    dist.init_process_group(backend="nccl")
    torch.cuda.set_device(dist.get_rank())
    model = nn.parallel.DistributedDataParallel(model.cuda())
"""


@pytest.mark.parametrize(("filled", "stays"), [("merge_from_file", True), ("show", False)])
def test_settings_that_a_file_may_name_stay(filled: str, stays: bool) -> None:
    text = after(migrated(script(FILLED.replace("merge_from_file", filled) + STEP)))
    assert "init_process_group" not in text
    assert ("cfg.distributed = False" in text) is stays
