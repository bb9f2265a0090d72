"""Losses that look at the whole batch: contrastive, the hardest rows, a root of a mean, rows of one class against the rest."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
inputs = torch.randn(62, 6)
labels = (inputs[:, 0] > 0).long() + (inputs[:, 1] > 0.5).long()
data = TensorDataset(inputs, labels, inputs @ torch.randn(6, 1))


def info_nce(first, second, temperature=0.5):
    z = F.normalize(torch.cat([first, second]), dim=1)
    n = len(first)
    similarity = (z @ z.T / temperature).masked_fill(torch.eye(2 * n, dtype=torch.bool), -1e9)
    return F.cross_entropy(similarity, torch.cat([torch.arange(n, 2 * n), torch.arange(n)]))


def batch_hard(embedding, target, margin=0.3):
    distance = torch.cdist(embedding, embedding)
    same = target.unsqueeze(0) == target.unsqueeze(1)
    return F.relu((distance * same).max(1)[0] - (distance + 1e5 * same).min(1)[0] + margin).mean()


class RootMeanSquare(nn.Module):
    def forward(self, prediction, target):
        return torch.sqrt(F.mse_loss(prediction, target) + 1e-8)


class Trainer:
    def __init__(self, model, criterion):
        self.model, self.criterion = model, criterion
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def loss(self, batch):
        x, y, target = batch
        prediction = self.model(x)
        error = (prediction - target).abs().squeeze(1)
        hardest = error.topk(max(1, len(error) // 2)).values.mean()
        return self.criterion(prediction, target) + 0.1 * hardest

    def fit(self, loader):
        for batch in loader:
            loss = self.loss(batch)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            print(f"regression {loss.item():.5f}")


encoder = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 8))
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
loader = DataLoader(data, batch_size=20, shuffle=True)
for epoch in range(2):
    for x, y, _ in loader:
        optimizer.zero_grad()
        loss = info_nce(encoder(x), encoder(x + 0.1))
        loss.backward()
        optimizer.step()
        print(f"contrastive {loss.item():.5f}")
for x, y, _ in loader:
    optimizer.zero_grad()
    embedding = encoder(x)
    loss = batch_hard(embedding, y)
    loss.backward()
    optimizer.step()
    print(f"triplet {loss.item():.5f}, spread {embedding.std(0).mean().item():.4f}")

regressor = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
Trainer(regressor, RootMeanSquare()).fit(DataLoader(data, batch_size=16))
torch.save({"encoder": encoder.state_dict(), "regressor": regressor.state_dict()}, "models.pt")
