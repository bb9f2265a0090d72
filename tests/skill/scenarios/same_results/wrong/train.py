"""A small convolutional network on synthetic images."""

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8 * 3 * 3, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        return self.head(x.flatten(1))


def accuracy(model, loader, device):
    model.eval()
    correct = 0
    with torch.no_grad():
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            correct += (model(x).argmax(1) == y).sum().item()
    return 100.0 * correct / len(loader.dataset)


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(7)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
images = torch.randn(170, 1, 8, 8)
labels = (images[:, 0, 2:4, 2:4].mean((1, 2)) * 4).long().clamp(0, 3)
sampler = torch.utils.data.DistributedSampler(TensorDataset(images[:117], labels[:117]))
train_loader = DataLoader(TensorDataset(images[:117], labels[:117]), batch_size=16 // world, sampler=sampler)
test_loader = DataLoader(TensorDataset(images[117:], labels[117:]), batch_size=50)
model = nn.parallel.DistributedDataParallel(Net().to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
for epoch in range(2):
    model.train()
    sampler.set_epoch(epoch)
    losses = []
    for x, y in train_loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    scheduler.step()
    score = accuracy(model.module, test_loader, device)
    if rank == 0:
        print(f"epoch {epoch}: loss {sum(losses) / len(losses):.4f}, accuracy {score:.2f}")
if rank == 0:
    torch.save(model.module.state_dict(), "net.pt")
