"""Programs that refuse to train on one process are distributed, whatever their flags say."""

from __future__ import annotations

import pytest

from codemod.memory import after, migrated

PROGRAM = """\
import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 2)

    def forward(self, x):
        keys = all_rows(self.layer(x))
        return self.layer(x) - keys.mean(0)


@torch.no_grad()
def all_rows(tensor):
    parts = [torch.ones_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor)
    return torch.cat(parts, dim=0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--distributed", action="store_true")
    args = parser.parse_args()
    dataset = TensorDataset(torch.randn(249, 8), torch.randint(2, (249,)))
    model = Net()
    if args.distributed:
        dist.init_process_group("gloo")
        model = DistributedDataParallel(model)
    {otherwise}
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


main()
"""
REFUSING = {
    "else": "else:\n        raise NotImplementedError('one process is not supported')",
    "elif": "elif torch.cuda.is_available():\n        raise ValueError('no')\n    else:\n        raise ValueError('no')",
    "below": "if not args.distributed:\n        raise RuntimeError('start it with torchrun')",
}


@pytest.mark.parametrize("otherwise", REFUSING)
def test_the_distributed_branch_is_what_is_left(otherwise: str) -> None:
    text = after(migrated(PROGRAM.replace("{otherwise}", REFUSING[otherwise])))
    assert "sampler = DistributedSampler(dataset, num_replicas=accelerator.num_processes" in text
    assert "Accelerator()" in text


def test_rows_are_gathered_in_a_model_without_the_accelerator() -> None:
    text = after(migrated(PROGRAM.replace("{otherwise}", REFUSING["else"])))
    assert "from accel_runtime.utils import gather" in text
    assert "return gather(tensor)" in text


def test_a_flag_that_may_be_off_goes() -> None:
    text = after(migrated(PROGRAM.replace("{otherwise}", "")))
    assert "Accelerator(split_batches=True)" in text
