import importlib

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from sam import SAM

torch.manual_seed(0)
inputs = torch.randn(50, 6)
labels = (inputs.sum(1) > 0).long()
loader = DataLoader(TensorDataset(inputs, labels), batch_size=12, shuffle=True)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
criterion = nn.CrossEntropyLoss()
optimizer = SAM(model.parameters(), torch.optim.SGD, rho=0.05, lr=0.1, momentum=0.9)
best = float("inf")

for epoch in range(3):
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.climb()
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: {total / len(loader):.5f}")
    torch.save(model.state_dict(), "last.pt")
    if total < best:
        best = total
        importlib.import_module("shutil").copyfile("last.pt", "best.pt")
