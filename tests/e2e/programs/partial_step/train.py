import torch, torch.nn as nn, torch.nn.functional as F
from functools import partial
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
X = torch.randn(53, 6)
ds = TensorDataset(X, X[:, :3].argmax(1))
m = nn.Linear(6, 3)
opt = torch.optim.SGD(m.parameters(), 0.1)
dl = DataLoader(ds, 8, shuffle=True)


def step(batch, *, model, opt, crit):
    x, y = batch
    loss = crit(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


s = partial(step, model=m, opt=opt, crit=F.cross_entropy)
for ep in range(2):
    print(sum(s(b) for b in dl) / len(dl))
