"""Stochastic weight averaging: an `AveragedModel` that gets its BatchNorm figures at the end, next to a plain copy."""

import copy

import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
inputs = torch.randn(70, 8)
labels = (inputs @ torch.randn(8, 3)).argmax(1)
loader = DataLoader(TensorDataset(inputs, labels), batch_size=16, shuffle=True)

model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 3)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
averaged = AveragedModel(model)
first = copy.deepcopy(model)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=3)
swa_scheduler = SWALR(optimizer, swa_lr=0.05, anneal_epochs=2)

for epoch in range(5):
    model.train()
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if epoch >= 2:
        averaged.update_parameters(model)
        swa_scheduler.step()
    else:
        scheduler.step()
    print(f"epoch {epoch}: loss {loss.item():.5f}, lr {optimizer.param_groups[0]['lr']:.5f}")

update_bn(loader, averaged, device=device)
averaged.eval()
correct = 0
with torch.no_grad():
    for x, y in loader:
        correct += (averaged(x.to(device)).argmax(1) == y.to(device)).sum().item()
moved = sum((p - q).abs().sum().item() for p, q in zip(averaged.module.parameters(), first.parameters()))
print(f"averaged: {correct} of {len(inputs)} right, {moved:.4f} away from the start")
torch.save(averaged.module.state_dict(), "averaged.pt")
torch.save({"average": averaged.state_dict(), "model": model.state_dict()}, "all.pt")
