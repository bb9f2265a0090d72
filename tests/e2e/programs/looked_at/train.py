import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ds = TensorDataset(torch.randn(50, 8), torch.randint(2, (50,)))
mean = torch.zeros(8)
n = 0
stat_loader = DataLoader(ds, batch_size=16)
for x, _ in stat_loader:
    mean += x.sum(0)
    n += x.size(0)
mean /= n
print("mean", mean.sum().item(), n)
counts = [0, 0]
for _, y in DataLoader(ds, batch_size=7):
    for t in y:
        counts[int(t)] += 1
print(counts)
loader = DataLoader(ds, batch_size=16, shuffle=True)
model = nn.Linear(8, 2).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    x, y = x.to(device), y.to(device)
    loss = nn.functional.cross_entropy(model(x - mean.to(device)), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
