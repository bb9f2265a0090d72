"""Two towers whose contrastive loss is computed in the model's own forward pass, with a temperature that is learned."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
pictures = torch.randn(50, 10)
texts = pictures @ torch.randn(10, 6) + 0.1 * torch.randn(50, 6)
loader = DataLoader(TensorDataset(pictures, texts), batch_size=16, shuffle=True)
held_out = DataLoader(TensorDataset(pictures[:20], texts[:20]), batch_size=8)


class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.picture = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 8))
        self.text = nn.Linear(6, 8)
        self.scale = nn.Parameter(torch.tensor(math.log(10.0)))

    def forward(self, picture, text):
        a = F.normalize(self.picture(picture), dim=-1)
        b = F.normalize(self.text(text), dim=-1)
        logits = self.scale.exp() * a @ b.t()
        targets = torch.arange(len(a), device=a.device)
        return (F.cross_entropy(logits, targets) + F.cross_entropy(logits.t(), targets)) / 2


model = Towers()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for epoch in range(3):
    model.train()
    for picture, text in loader:
        loss = model(picture, text)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval()
    total = 0.0
    with torch.no_grad():
        for picture, text in held_out:
            total += model(picture, text).item()
    print(f"epoch {epoch}: loss {loss.item():.5f}, held out {total / len(held_out):.5f}, scale {model.scale.exp().item():.4f}")
torch.save(model.state_dict(), "towers.pt")
