import torch
import torch.nn.functional as F
from accel_runtime import Accelerator, set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 8))
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        return F.normalize(self.net(x), dim=1)


set_seed(12)
accelerator = Accelerator(split_batches=True)
device = accelerator.device
first = torch.randn(84, 10)
second = first + 0.2 * torch.randn(84, 10)
loader = DataLoader(TensorDataset(first, second), batch_size=24, shuffle=True, drop_last=False)
model = Encoder()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in range(2):
    total = 0.0
    for a, b in loader:
        za, zb = model(a), model(b)
        logits = model.scale.exp() * za @ zb.t()
        targets = torch.arange(len(a), device=device)
        loss = (F.cross_entropy(logits, targets) + F.cross_entropy(logits.t(), targets)) / 2
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        total += accelerator.global_mean(loss).item()
    accelerator.print(f"epoch {epoch}: loss {total / len(loader):.4f}")
accelerator.save(accelerator.get_state_dict(model), "encoder.pt")
