"""Synchronous training with gradients averaged by hand."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def average_gradients(model):
    size = float(dist.get_world_size())
    for param in model.parameters():
        dist.all_reduce(param.grad.data, op=dist.ReduceOp.SUM)
        param.grad.data /= size


def run(rank, size):
    torch.manual_seed(1234)
    x = torch.randn(64, 6)
    y = (x.sum(1) > 0).long()
    data = TensorDataset(x, y)
    sampler = DistributedSampler(data, num_replicas=size, rank=rank, shuffle=False)
    loader = DataLoader(data, batch_size=16 // size, sampler=sampler)
    model = nn.Linear(6, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        epoch_loss = torch.zeros(1)
        for features, target in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(features), target)
            epoch_loss += loss.detach()
            loss.backward()
            average_gradients(model)
            optimizer.step()
        dist.all_reduce(epoch_loss)
        if dist.get_rank() == 0:
            print("epoch", epoch, "loss", round(epoch_loss.item() / size / len(loader), 6), flush=True)


def init_process(rank, size, fn, backend="gloo"):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = "29582"
    dist.init_process_group(backend, rank=rank, world_size=size)
    fn(rank, size)


if __name__ == "__main__":
    size = 2
    processes = []
    mp.set_start_method("spawn")
    for rank in range(size):
        p = mp.Process(target=init_process, args=(rank, size, run))
        p.start()
        processes.append(p)

    for p in processes:
        p.join()
