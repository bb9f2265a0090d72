"""The same names for two trainings, one after the other: model, optimizer and scheduler are made anew."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(2)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
inputs = torch.randn(83, 6)
loader = DataLoader(TensorDataset(inputs, inputs[:, :1] - inputs[:, 1:2]), batch_size=16, shuffle=True)


def make_net(width):
    return nn.Sequential(nn.Linear(6, width), nn.Tanh(), nn.Linear(width, 1)).to(device)


net = make_net(8)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
for epoch in range(2):
    for x, y in loader:
        loss = nn.functional.mse_loss(net(x.to(device)), y.to(device))
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"plain {epoch}: {loss.item():.5f}")
torch.save(net.state_dict(), "plain.pt")

net = make_net(12)
opt = torch.optim.Adam(net.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.StepLR(opt, 2)
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.mse_loss(net(x.to(device)), y.to(device))
        opt.zero_grad()
        loss.backward()
        opt.step()
    scheduler.step()
    print(f"wider {epoch}: {loss.item():.5f}")
torch.save(net.state_dict(), "wider.pt")
