"""What is left when the library took over: branches alike, classes that stood in for its own, seeds of workers, copies."""

from __future__ import annotations

import pytest

from codemod.marked import script
from codemod.memory import after, migrated

LOOP = """
model = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in loader:
    x, y = {unpacked}
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""
SCALER = """
try:
    from torch.cuda.amp import GradScaler
except ImportError:
    class GradScaler:
        def scale(self, loss):
            return loss

        def step(self, optimizer):
            optimizer.step()

        def update(self):
            pass

scaler = GradScaler()
model = nn.DataParallel(nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
GROUP = """
import os
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import torch.distributed as dist

if __name__ == "__main__":
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if several:
        dist.init_process_group("gloo")
    loader = DataLoader(TensorDataset(torch.randn(64, 8), torch.randint(2, (64,))), batch_size=8)
    model = nn.Linear(8, 2)
    if several:
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if several:
        plain = model.module
    else:
        plain = model
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    print(plain.weight.sum())
"""


@pytest.mark.parametrize("unpacked", ["[t.cuda() for t in batch]", "(t.to('cuda') for t in batch)", "[t.to(torch.device('cuda')) for t in batch]"])
def test_what_is_unpacked_at_once_needs_no_copy(unpacked: str) -> None:
    assert "    x, y = batch\n" in after(migrated(script(LOOP.format(unpacked=unpacked))))


@pytest.mark.parametrize("unpacked", ["[t.cuda() for t in batch if t is not None]", "[t.cuda().float() for t in batch]"])
def test_what_does_more_than_move_stays(unpacked: str) -> None:
    assert "for t in batch" in after(migrated(script(LOOP.format(unpacked=unpacked))))


def test_a_stand_in_goes_with_what_it_stood_for() -> None:
    text = after(migrated(script(SCALER)))
    assert "GradScaler" not in text and "try:" not in text


def test_a_stand_in_that_something_reads_stays_whole() -> None:
    text = after(migrated(script(SCALER + "print(GradScaler)\n")))
    assert "def scale(self, loss):" in text and "def update(self):" in text


def test_branches_that_became_alike_are_one_and_the_group_is_made_in_the_guard() -> None:
    text = after(migrated(GROUP))
    assert "\n    plain = model\n" in text
    assert text.index('if __name__ == "__main__":') < text.index("accelerator = Accelerator(")


@pytest.mark.parametrize(
    "worker",
    [
        "class Data(torch.utils.data.Dataset):\n    def __getitem__(self, index):\n        torch.manual_seed(index)\n        return torch.randn(3)\n",
        "def start(worker):\n    torch.manual_seed(worker)\n\nother = DataLoader(range(4), worker_init_fn=start)\n",
    ],
)
def test_workers_seed_themselves(worker: str) -> None:
    text = after(migrated(script(f"torch.manual_seed(1)\n{worker}" + LOOP.format(unpacked="batch"))))
    assert "set_seed(1)" in text and text.count("torch.manual_seed(") == 1


RESUMED = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--resume")
args = parser.parse_args()
use_cuda = torch.cuda.is_available()
if args.resume:
    net = torch.load(args.resume)["net"]
else:
    net = nn.Linear(8, 2)
if use_cuda:
    net.cuda()
    net = nn.DataParallel(net)
    torch.backends.cudnn.benchmark = True
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
"""


def test_a_model_whose_wrapper_goes_is_prepared_whether_it_was_wrapped_or_not() -> None:
    text = after(migrated(script(RESUMED)))
    assert "\nmodel, net, optimizer, loader = accelerator.prepare(" in text
