import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
X = torch.randn(53, 6)
dataset = TensorDataset(X, X[:, :3].argmax(1))
loader = DataLoader(dataset, batch_size=8, shuffle=True)
model = nn.Linear(6, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
best = torch.tensor(float("inf"))
lowest = torch.tensor(9.0)
ema = None
history = torch.zeros(3)
worst = {}
per_epoch = [0.0] * 3


class Trainer:
    def __init__(self):
        self.last_loss = None
        self.losses = {}

    def step(self, x, y):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        self.last_loss = loss.detach()
        self.losses["ce"] = loss.detach().clone()
        return loss


trainer = Trainer()
previous = torch.tensor(0.0)
jumps = 0
total = torch.zeros(())
for epoch in range(3):
    for x, y in loader:
        loss = trainer.step(x, y)
        acc = (model(x).argmax(1) == y).float().mean()
        if loss < best:
            best = loss.detach().clone()
        lowest = min(lowest, loss.detach())
        ema = loss.detach() if ema is None else 0.9 * ema + 0.1 * loss.detach()
        if loss - previous > 0.1:
            jumps += 1
        previous = loss.detach() * 1.0
        history[epoch] = loss.detach()
        per_epoch[epoch] = loss.detach()
        worst[epoch] = acc
        total.add_(loss.detach())
        figures = dict(loss=loss.detach(), accuracy=acc)
    with torch.no_grad():
        for x, y in loader:
            out = model(x)
    print(f"{best.item():.5f} {lowest.item():.5f} {ema.item():.5f} {jumps} {previous.item():.5f} {acc.item():.5f} {total.item():.5f} {figures['loss'].item():.5f}")
    print(f"{trainer.last_loss.item():.5f} {trainer.losses['ce'].item():.5f} {history.tolist()} {worst[epoch].item():.5f} {float(per_epoch[epoch]):.5f}")
