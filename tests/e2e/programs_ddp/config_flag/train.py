import os

import torch
import torch.distributed as dist
from config import Config
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

cfg = Config()


def init_ddp():
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    return local_rank


def is_master(local_rank):
    return not cfg.use_ddp or local_rank == 0


def build_loader(dataset, train):
    sampler = DistributedSampler(dataset, shuffle=train) if cfg.use_ddp else None
    return DataLoader(dataset, batch_size=cfg.batch_size, shuffle=train and sampler is None, sampler=sampler), sampler


def main():
    local_rank = 0
    if cfg.use_ddp:
        local_rank = init_ddp()
        device = torch.device("cuda", local_rank)
    else:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(3)
    x = torch.randn(160, 9)
    loader, sampler = build_loader(TensorDataset(x, x[:, :2].sum(1, keepdim=True)), train=True)
    model = nn.Sequential(nn.Linear(9, 9), nn.Tanh(), nn.Linear(9, 1)).to(device)
    if cfg.use_ddp:
        model = DDP(model, device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=cfg.lr)
    for epoch in range(cfg.epochs):
        if cfg.use_ddp:
            sampler.set_epoch(epoch)
        for inputs, targets in loader:
            inputs, targets = inputs.to(device), targets.to(device)
            loss = nn.functional.mse_loss(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if is_master(local_rank):
            print(f"epoch {epoch}: {loss.item():.5f}")
            torch.save((model.module if cfg.use_ddp else model).state_dict(), "model.pt")
    if cfg.use_ddp:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
