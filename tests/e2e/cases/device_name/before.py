"""The device is a string, and is used as one in several ways."""

import json

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
device_type = "cuda" if "cuda" in device else "cpu"


def describe(name):
    return "on " + name.upper()


print(json.dumps({"device": device}), describe(device), f"{device:>6}", {"cuda": 4, "cpu": 0}[device], device == "cpu")
loader = DataLoader(TensorDataset(torch.randn(96, 8), torch.randn(96, 1)), batch_size=32, pin_memory=device_type == "cuda")
model = nn.Linear(8, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
weight = torch.full((1,), 0.5, device=device)

for epoch in range(2):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        with torch.autocast(device, enabled=False):
            loss = nn.functional.mse_loss(model(x), y) * weight.mean()
        loss.backward()
        optimizer.step()
    print(epoch, round(loss.item(), 4), device_type.startswith("cuda"))
