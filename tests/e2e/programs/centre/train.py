"""A student learns from an averaged teacher: centred outputs, and a queue of keys to tell apart."""

import copy

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Queue(nn.Module):
    """The latest keys, the oldest of which are written over."""

    def __init__(self, dim, size=120):
        super().__init__()
        self.size = size
        self.register_buffer("keys", F.normalize(torch.randn(dim, size), dim=0))
        self.register_buffer("position", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def push(self, keys):
        batch_size = keys.shape[0]
        start = int(self.position)
        end = min(start + batch_size, self.size)
        self.keys[:, start:end] = keys.T[:, : end - start]
        self.position[0] = (start + batch_size) % self.size

    def forward(self, queries):
        return queries @ self.keys.clone()


class CentredLoss(nn.Module):
    def __init__(self, dim, momentum=0.9):
        super().__init__()
        self.momentum = momentum
        self.register_buffer("center", torch.zeros(1, dim))

    def forward(self, student, teacher):
        target = F.softmax((teacher - self.center) / 0.5, dim=-1).detach()
        loss = torch.sum(-target * F.log_softmax(student, dim=-1), dim=-1)
        self.update_center(teacher)
        return loss.mean()

    @torch.no_grad()
    def update_center(self, teacher):
        batch_center = torch.sum(teacher, dim=0, keepdim=True) / len(teacher)
        self.center = self.center * self.momentum + batch_center * (1 - self.momentum)


digits = load_digits()
images = torch.tensor(digits.data[:320] / 16, dtype=torch.float32)
loader = DataLoader(TensorDataset(images), batch_size=40, shuffle=True)

student = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 8)).to(device)
teacher = copy.deepcopy(student)
criterion = CentredLoss(8).to(device)
queue = Queue(8).to(device)
optimizer = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9)

for epoch in range(2):
    for (x,) in loader:
        x = x.to(device)
        with torch.no_grad():
            keys = teacher(x)
        queries = student(x)
        others = queue(F.normalize(queries, dim=1))
        loss = criterion(queries, keys) + 0.1 * others.exp().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        queue.push(F.normalize(keys, dim=1))
        with torch.no_grad():
            for slow, fast in zip(teacher.parameters(), student.parameters()):
                slow.mul_(0.95).add_(fast, alpha=0.05)
    print(f"epoch {epoch} loss {loss.item():.5f} centre {criterion.center.norm().item():.5f} keys {queue.keys.sum().item():.4f}")

torch.save({"student": student.state_dict(), "center": criterion.center, "keys": queue.keys}, "centre.pt")
