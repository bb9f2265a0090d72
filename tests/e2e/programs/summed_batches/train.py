"""One step from the losses of several batches: kept in a list, added up in a variable; the last batch is smaller."""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_model():
    return nn.Sequential(nn.Linear(64, 24), nn.Tanh(), nn.Linear(24, 10))


def train_by_list(model, loader, optimizer, device):
    losses = []
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        losses.append(F.cross_entropy(model(x), y))
    loss = torch.stack(losses).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def train_by_sum(model, loader, optimizer, device):
    loss = 0
    for x, y in loader:
        output = model(x.to(device))
        loss = loss + F.cross_entropy(output, y.to(device))
    loss = loss / len(loader)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(5)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    digits = load_digits()
    dataset = TensorDataset(torch.tensor(digits.data[:115] / 16, dtype=torch.float32), torch.tensor(digits.target[:115]))
    for train in (train_by_list, train_by_sum):
        loader = DataLoader(dataset, batch_size=32, shuffle=True)
        model = make_model().to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for epoch in range(4):
            print(f"{train.__name__} {epoch} {train(model, loader, optimizer, device):.5f}")
        torch.save(model.state_dict(), f"{train.__name__}.pt")


if __name__ == "__main__":
    main()
