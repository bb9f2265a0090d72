"""Loaders that only the main process of a distributed program reads are not cut."""

from __future__ import annotations

from codemod.memory import after, migrated

PROGRAM = """\
import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def valid(model, loader, device):
    hits = 0
    for x, y in loader:
        with torch.no_grad():
            hits += (model(x.to(device)).argmax(1) == y.to(device)).sum().item()
    print(hits)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=-1)
    args = parser.parse_args()
    dist.init_process_group("nccl")
    device = torch.device("cuda", args.local_rank)
    dataset = TensorDataset(torch.randn(64, 8), torch.randint(2, (64,)))
    train_loader = DataLoader(dataset, sampler=DistributedSampler(dataset), batch_size=8)
    test_loader = DataLoader(dataset, batch_size=8)
    model = DistributedDataParallel(nn.Linear(8, 2).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, (x, y) in enumerate(train_loader):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
        {when}
            valid(model, test_loader, device)


main()
"""


def test_what_the_main_process_evaluates_alone_it_evaluates_on_all_rows() -> None:
    text = after(migrated(PROGRAM.replace("{when}", "if step % 4 == 0 and args.local_rank in [-1, 0]:")))
    assert "accelerator.prepare(model, optimizer, train_loader)" in text
    assert "gather" not in text
    assert "model(x.to(device))" in text


def test_what_all_processes_evaluate_is_shared_out() -> None:
    text = after(migrated(PROGRAM.replace("{when}", "if step % 4 == 0:")))
    assert "model, optimizer, train_loader, test_loader\n" in text
