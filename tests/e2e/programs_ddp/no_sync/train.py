import contextlib
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

ACCUMULATION = 4

dist.init_process_group(backend="gloo", init_method="env://")
local_rank = int(os.environ.get("LOCAL_RANK", 0))
is_main = dist.get_rank() == 0
torch.manual_seed(0)


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 12)
        self.first = nn.Linear(12, 1)
        self.second = nn.Linear(12, 1)

    def forward(self, x, head):
        h = torch.relu(self.body(x))
        return self.first(h) if head == 0 else self.second(h)


x = torch.randn(128, 6)
dataset = TensorDataset(x, x.prod(1, keepdim=True))
loader = DataLoader(dataset, batch_size=4, sampler=DistributedSampler(dataset, drop_last=True))
net = DistributedDataParallel(TwoHeads(), find_unused_parameters=True)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)

for epoch in range(2):
    loader.sampler.set_epoch(epoch)
    shown = 0.0
    for i, (inputs, targets) in enumerate(loader):
        last = (i + 1) % ACCUMULATION == 0
        with contextlib.nullcontext() if last else net.no_sync():
            loss = nn.functional.smooth_l1_loss(net(inputs, epoch % 2), targets) / ACCUMULATION
            loss.backward()
        shown += loss.item()
        if last:
            optimizer.step()
            optimizer.zero_grad()
    mean = torch.tensor(shown)
    dist.all_reduce(mean)
    mean /= dist.get_world_size()
    if is_main:
        print(f"epoch {epoch}: {mean.item():.6f}")

if is_main:
    torch.save(net.module.state_dict(), "heads.pt")
dist.destroy_process_group()
