import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
X = torch.randn(53, 6)
ds = TensorDataset(X, X[:, :3].argmax(1))
m = nn.Linear(6, 3)
opt = torch.optim.SGD(m.parameters(), 0.1)
dl = DataLoader(ds, 8, shuffle=True)
for x, y in dl:
    o = m(x)
    loss = F.cross_entropy(o, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(y[0].item(), o[0].tolist(), o[:2].tolist(), o[0, 1].item())
