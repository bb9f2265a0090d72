"""Samples augmented as they are read, without workers; blocks as classes of sequences and lists; a pretext task of turned images."""

import random

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Digits(Dataset):
    def __init__(self, images, labels, train):
        self.images, self.labels, self.train = images, labels, train

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        if self.train:
            if random.random() < 0.5:
                image = image.flip(-1)
            image = image + 0.1 * torch.randn_like(image) + float(np.random.normal(0, 0.02))
        return image, self.labels[index]


class Block(nn.Sequential):
    def __init__(self, n, m):
        super().__init__(nn.Linear(n, m), nn.BatchNorm1d(m), nn.ReLU())


class Trunk(nn.ModuleList):
    def __init__(self, sizes):
        super().__init__(Block(n, m) for n, m in zip(sizes, sizes[1:]))
        self.active = 0.0

    def forward(self, x):
        for block in self:
            x = block(x)
        self.active += (x.detach() > 0).float().mean().item()
        return x


torch.manual_seed(11)
random.seed(12)
np.random.seed(13)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
digits = load_digits()
images = torch.tensor(digits.images / 16, dtype=torch.float32).unsqueeze(1)
labels = torch.tensor(digits.target)
loader = DataLoader(Digits(images[:190], labels[:190], True), batch_size=48, shuffle=True)
test_loader = DataLoader(Digits(images[190:260], labels[190:260], False), batch_size=48)
trunk = Trunk([64, 32, 16]).to(device)
classes, turns = nn.Linear(16, 10).to(device), nn.Linear(16, 4).to(device)
optimizer = torch.optim.SGD([*trunk.parameters(), *classes.parameters(), *turns.parameters()], lr=0.05, momentum=0.9)

for epoch in range(3):
    trunk.train()
    total, hits, count, largest = 0.0, 0, 0, 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        turned = torch.cat([torch.rot90(x, k, (2, 3)) for k in range(4)])
        target = torch.arange(4, device=device).repeat_interleave(x.size(0))
        out = turns(trunk(turned.flatten(1)))
        loss = F.cross_entropy(classes(trunk(x.flatten(1))), y) + F.cross_entropy(out, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        hits += (out.argmax(1) == target).sum().item()
        count += len(target)
        _, number = torch.unique(y, return_counts=True)
        largest = max(largest, number.max().item())
    trunk.eval()
    with torch.no_grad():
        right = sum((classes(trunk(x.to(device).flatten(1))).argmax(1) == y.to(device)).sum().item() for x, y in test_loader)
    print(f"epoch {epoch}: loss {total:.4f} turns {hits / count:.4f} largest {largest} right {right} active {trunk.active:.4f} {random.random():.4f}")
torch.save(trunk.state_dict(), "trunk.pt")
