import argparse
import os

import torch
import torch.distributed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Options:
    def __init__(self):
        parser = argparse.ArgumentParser()
        parser.add_argument("--local-rank", type=int, default=0)
        parser.add_argument("--nodes", type=int, default=1)
        parser.add_argument("--init-file", default="file:///tmp/unused")
        parser.add_argument("--steps", type=int, default=12)
        self.values = parser.parse_args()


def start_distributed(options):
    options.rank = int(os.environ["SLURM_PROCID"]) if "SLURM_PROCID" in os.environ else int(os.environ["RANK"])
    options.world_size = int(os.environ["WORLD_SIZE"])
    torch.distributed.init_process_group(
        "gloo", init_method="env://", rank=options.rank, world_size=options.world_size
    )
    print(f"process {options.rank} of {options.world_size} is ready")
    torch.distributed.barrier()


def synchronize():
    if torch.distributed.get_world_size() == 1:
        return
    torch.distributed.barrier()


def main():
    options = Options().values
    start_distributed(options)
    torch.manual_seed(9)
    features = torch.randn(96, 7)
    dataset = TensorDataset(features, features.abs().sum(1, keepdim=True))
    sampler = DistributedSampler(dataset, options.world_size, options.rank)
    loader = DataLoader(dataset, 8, sampler=sampler)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(7, 14), nn.ELU(), nn.Linear(14, 1)))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    step = 0
    epoch = 0
    while step < options.steps:
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.l1_loss(model(x), y)
            loss.backward()
            optimizer.step()
            step += 1
            if options.rank == 0 and step % 3 == 0:
                print(f"step {step}: {loss.item():.5f}")
        epoch += 1
    synchronize()
    if options.rank == 0:
        torch.save(model.module.state_dict(), "slurm.pt")


if __name__ == "__main__":
    main()
