import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 8))
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        return F.normalize(self.net(x), dim=1)


torch.manual_seed(12)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
first = torch.randn(84, 10)
second = first + 0.2 * torch.randn(84, 10)
loader = DataLoader(TensorDataset(first, second), batch_size=24, shuffle=True, drop_last=False)
model = Encoder().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(2):
    total = 0.0
    for a, b in loader:
        a, b = a.to(device), b.to(device)
        za, zb = model(a), model(b)
        logits = model.scale.exp() * za @ zb.t()
        targets = torch.arange(len(a), device=device)
        loss = (F.cross_entropy(logits, targets) + F.cross_entropy(logits.t(), targets)) / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: loss {total / len(loader):.4f}")
torch.save(model.state_dict(), "encoder.pt")
