import torch
import torch.nn.functional as F
from sklearn.metrics import f1_score
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
device = "cuda" if torch.cuda.is_available() else "cpu"


def make(n):
    x = torch.randn(n, 12)
    return TensorDataset(x, (x[:, 0] * x[:, 1] > 0.6).long())


train_loader = DataLoader(make(256), batch_size=32, shuffle=True)
valid_loader = DataLoader(make(1003), batch_size=64)
net = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 2)).to(device)
opt = optim.Adam(net.parameters(), lr=1e-2)


def evaluate():
    net.eval()
    predictions, labels = [], []
    with torch.no_grad():
        for x, y in valid_loader:
            predictions.extend(net(x.to(device)).argmax(dim=1).cpu().tolist())
            labels.extend(y.tolist())
    return f1_score(labels, predictions, average="macro"), len(labels)


for epoch in range(2):
    net.train()
    for x, y in train_loader:
        opt.zero_grad()
        F.cross_entropy(net(x.to(device)), y.to(device)).backward()
        opt.step()
    f1, n = evaluate()
    print(f"epoch {epoch}: F1 {f1:.4f} on {n} samples")
