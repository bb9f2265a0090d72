import torch, itertools
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
ds = TensorDataset(torch.randn(100, 8), torch.randint(2, (100,)))
tr = DataLoader(ds, batch_size=10, shuffle=True)
model = nn.Linear(8, 2).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)

it = iter(tr)
for step in range(20):
    try:
        x, y = next(it)
    except StopIteration:
        it = iter(tr)
        x, y = next(it)
    x, y = x.to(device), y.to(device)
    loss = F.cross_entropy(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())


va = DataLoader(ds, batch_size=10)
model.eval()
with torch.no_grad():
    n = 0
    for a, b in va:
        a, b = a.to(device), b.to(device)
        n += (model(a).argmax(1) == b).sum().item()
print(n / 100)
