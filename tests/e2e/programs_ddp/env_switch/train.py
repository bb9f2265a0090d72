import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset, distributed

world_size = int(os.environ.get("WORLD_SIZE", 1))
rank = int(os.environ.get("RANK", 0))
local_rank = int(os.environ.get("LOCAL_RANK", 0))
is_distributed = world_size > 1


def log(*message):
    if rank == 0:
        print(*message)


def main():
    if is_distributed:
        dist.init_process_group(backend="gloo")
    device = torch.device("cuda:{}".format(local_rank) if torch.cuda.is_available() else "cpu")
    torch.manual_seed(17)
    x = torch.rand(180, 4)
    data = TensorDataset(x, (4 * x).sin().mean(1, keepdim=True))
    sampler = distributed.DistributedSampler(data, shuffle=True) if is_distributed else None
    loader = DataLoader(data, batch_size=20, shuffle=sampler is None, sampler=sampler)

    model = nn.Sequential(nn.Linear(4, 16), nn.GELU(), nn.Linear(16, 1)).to(device)
    if is_distributed:
        model = nn.parallel.DistributedDataParallel(model, device_ids=[local_rank] if device.type == "cuda" else None)
    lr = 0.01 * world_size
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5 * lr, total_steps=2 * len(loader))
    log("learning rate", lr)
    for epoch in range(2):
        if sampler is not None:
            sampler.set_epoch(epoch)
        loss_sum = torch.zeros(1, device=device)
        for inputs, targets in loader:
            inputs, targets = inputs.to(device), targets.to(device)
            loss = nn.functional.mse_loss(model(inputs), targets)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            scheduler.step()
            loss_sum += loss.detach()
        if is_distributed:
            dist.all_reduce(loss_sum)
        log(f"epoch {epoch} loss {loss_sum.item() / len(loader) / world_size:.6f}")
    if rank == 0:
        state = model.module.state_dict() if is_distributed else model.state_dict()
        torch.save(state, "env.pt")
    if is_distributed:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
