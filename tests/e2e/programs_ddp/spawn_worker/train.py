import argparse
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Waves(Dataset):
    def __init__(self, count):
        generator = torch.Generator().manual_seed(11)
        self.phase = torch.rand(count, generator=generator)

    def __len__(self):
        return len(self.phase)

    def __getitem__(self, index):
        t = torch.linspace(0, 1, 12)
        return torch.sin(6.28 * (t + self.phase[index])), self.phase[index : index + 1]


def setup(rank, world_size, port):
    """Joins the processes."""
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = str(port)
    dist.init_process_group("gloo", rank=rank, world_size=world_size)


def cleanup():
    dist.destroy_process_group()


def main_worker(rank, world_size, args):
    print(f"worker {rank} of {world_size}", flush=True)
    setup(rank, world_size, args.port)
    torch.manual_seed(args.seed)

    dataset = Waves(96)
    sampler = DistributedSampler(dataset, num_replicas=world_size, rank=rank)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler)
    model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 1)).to("cpu")
    ddp_model = DistributedDataParallel(model)
    optimizer = optim.Adam(ddp_model.parameters(), lr=1e-2)
    criterion = nn.MSELoss()

    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        total = torch.zeros(())
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = criterion(ddp_model(inputs), targets)
            loss.backward()
            optimizer.step()
            total += loss.detach()
        dist.all_reduce(total)
        if rank == 0:
            print(f"[{epoch}] {total.item() / (len(loader) * world_size):.6f}", flush=True)
    dist.barrier()
    if rank == 0:
        torch.save(ddp_model.module.state_dict(), "waves.pt")
    cleanup()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--world-size", type=int, default=2, help="number of processes")
    parser.add_argument("--port", type=int, default=29581)
    parser.add_argument("--seed", type=int, default=5)
    args = parser.parse_args()
    mp.spawn(main_worker, args=(args.world_size, args), nprocs=args.world_size, join=True)


if __name__ == "__main__":
    main()
