import argparse
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def setup():
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank = dist.get_rank()
    world_size = dist.get_world_size()
    local_rank = int(os.environ["LOCAL_RANK"])
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank)
        device = torch.device(f"cuda:{local_rank}")
    else:
        device = torch.device("cpu")
    return rank, world_size, device


def cleanup():
    dist.destroy_process_group()


def reduce_mean(tensor, world_size):
    result = tensor.clone()
    dist.all_reduce(result, op=dist.ReduceOp.SUM)
    result /= world_size
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=16, help="of all processes together")
    parser.add_argument("--lr", type=float, default=0.05)
    args = parser.parse_args()

    rank, world_size, device = setup()
    torch.manual_seed(3)
    features = torch.randn(160, 10)
    labels = (features[:, :3].sum(1) > 0).long()
    dataset = TensorDataset(features, labels)
    sampler = DistributedSampler(dataset, shuffle=True, seed=1)
    loader = DataLoader(dataset, batch_size=args.batch_size // world_size, sampler=sampler)

    model = nn.Sequential(nn.Linear(10, 24), nn.Tanh(), nn.Linear(24, 2)).to(device)
    model = DDP(model, device_ids=[device.index] if device.type == "cuda" else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * world_size, momentum=0.9)

    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        model.train()
        running = 0.0
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            running += reduce_mean(loss.detach(), world_size).item()
        if rank == 0:
            print(f"epoch {epoch} loss {running / len(loader):.5f}")
    if rank == 0:
        torch.save({"model": model.module.state_dict()}, "final.pt")
    dist.barrier()
    cleanup()


if __name__ == "__main__":
    main()
