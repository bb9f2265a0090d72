import torch, torch.nn as nn, torch.nn.functional as F, numpy as np
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
X = torch.randn(53, 6)
ds = TensorDataset(X, X[:, :3].argmax(1), torch.arange(53))
m = nn.Linear(6, 3)
opt = torch.optim.SGD(m.parameters(), 0.1)
dl = DataLoader(ds, 8, shuffle=True)
va = DataLoader(ds, 8)
hist = torch.zeros(53)
last = torch.zeros(53)
o = 0
for x, y, i in dl:
    ls = F.cross_entropy(m(x), y, reduction="none")
    loss = ls.mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    hist[o : o + x.size(0)] = ls.detach()
    o += x.size(0)
    last[i] = ls.detach()
    z = torch.zeros(len(x))
    z[0] = 1
print(hist.sum().item(), int(hist.argmax()), last.sum().item(), int(last.argmax()))
out = np.zeros(53)
pos = 0
with torch.no_grad():
    for x, y, i in va:
        b = len(x)
        out[pos : pos + b] = m(x)[:, 0].numpy()
        pos += b
print(out.sum(), out.argmax())
