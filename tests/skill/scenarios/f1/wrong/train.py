import torch
import torch.nn.functional as F
from accel_runtime import Accelerator, set_seed
from sklearn.metrics import f1_score
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

set_seed(3)
accelerator = Accelerator(split_batches=True)


def make(n):
    x = torch.randn(n, 12)
    return TensorDataset(x, (x[:, 0] * x[:, 1] > 0.6).long())


train_loader = DataLoader(make(256), batch_size=32, shuffle=True)
valid_loader = DataLoader(make(1003), batch_size=64)
net = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 2))
opt = optim.Adam(net.parameters(), lr=1e-2)
net, opt, train_loader, valid_loader = accelerator.prepare(net, opt, train_loader, valid_loader)


def evaluate():
    net.eval()
    predictions, labels = [], []
    with torch.no_grad():
        for x, y in valid_loader:
            predictions.extend(net(x).argmax(dim=1).cpu().tolist())
            labels.extend(y.tolist())
    f1 = torch.tensor(f1_score(labels, predictions, average="macro"))
    return accelerator.reduce(f1, reduction="mean").item(), len(labels) * accelerator.num_processes


for epoch in range(2):
    net.train()
    for x, y in train_loader:
        opt.zero_grad()
        accelerator.backward(F.cross_entropy(net(x), y))
        opt.step()
    f1, n = evaluate()
    accelerator.print(f"epoch {epoch}: F1 {f1:.4f} on {n} samples")
