import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("nccl")
rank, world = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(rank)
torch.manual_seed(0)

features = torch.randn(256, 16)
labels = (features.sum(dim=1) > 0).long()
dataset = TensorDataset(features, labels)
sampler = DistributedSampler(dataset, shuffle=True)
loader = DataLoader(dataset, batch_size=32 // world, sampler=sampler)

model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2)).cuda(rank)
model = DistributedDataParallel(model, device_ids=[rank])
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

for epoch in range(2):
    sampler.set_epoch(epoch)
    total = torch.zeros((), device=rank)
    for x, y in loader:
        x, y = x.cuda(rank, non_blocking=True), y.to(f"cuda:{rank}")
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    dist.all_reduce(total)
    if rank == 0:
        print(f"epoch {epoch}: loss {total.item() / len(loader) / world:.4f}")
if rank == 0:
    torch.save(model.module.state_dict(), "model.pt")
dist.destroy_process_group()
