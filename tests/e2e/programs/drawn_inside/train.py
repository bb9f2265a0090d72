"""Noise of many kinds, weights made of the batch's own losses, and sums that are kept in place."""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.distributions import Normal, kl_divergence
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(5)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(64, 24)
        self.mean, self.scale = nn.Linear(24, 5), nn.Linear(24, 5)

    def forward(self, x):
        h = torch.tanh(self.body(x))
        posterior = Normal(self.mean(h), self.scale(h).exp())
        return posterior, posterior.rsample()


digits = load_digits()
images = torch.tensor(digits.data[:250] / 16, dtype=torch.float32)
labels = torch.tensor(digits.target[:250])
loader = DataLoader(TensorDataset(images, labels), batch_size=36, shuffle=True)
encoder = Encoder().to(device)
decoder = nn.Linear(5, 64).to(device)
head = nn.Linear(5, 10).to(device)
params = [*encoder.parameters(), *decoder.parameters(), *head.parameters()]
optimizer = torch.optim.Adam(params, lr=2e-3)
total = torch.zeros((), device=device)
average = torch.zeros(64, device=device)

for epoch in range(2):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        kept = torch.bernoulli(torch.full_like(x, 0.9))
        noise = torch.empty_like(x).normal_(0, 0.1)
        posterior, z = encoder(x * kept + noise - average)
        divergence = kl_divergence(posterior, Normal(torch.zeros_like(z), torch.ones_like(z))).sum(1)
        errors = F.cross_entropy(head(z), y, reduction="none")
        weights = errors.detach() / errors.detach().sum()
        scaled = (errors.detach() - errors.detach().mean()) / (errors.detach().std() + 1e-6)
        hard = errors.detach() > errors.detach().median()
        loss = (weights * errors).sum()
        loss = loss + ((decoder(z) - x).pow(2).sum(1) / len(x)).sum()
        loss = loss + (0.1 * divergence * (1 + torch.sigmoid(scaled) + hard.float()) / len(x)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total.add_(loss.detach())
        average.lerp_(x.mean(0), 0.05)
    print(f"epoch {epoch} total {total.item():.5f} average {average.mean().item():.6f} classes {len(y.unique())} largest {errors.max().item():.5f}")

torch.save({"encoder": encoder.state_dict(), "average": average, "total": total}, "drawn_inside.pt")
