"""The batch size as a constant in shapes: of the batch, inside the model, of parts of each sample."""

import argparse

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=36)
parser.add_argument("--epochs", type=int, default=3)
args = parser.parse_args()


class Reader(nn.Module):
    def __init__(self, batch_size):
        super().__init__()
        self.batch_size = batch_size
        self.line = nn.Linear(8, 12)
        self.last = nn.Linear(96, 10)

    def forward(self, lines):
        read = torch.relu(self.line(lines.view(self.batch_size * 8, 8)))
        return self.last(read.view(self.batch_size, 96))


torch.manual_seed(2)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
digits = load_digits()
dataset = TensorDataset(torch.tensor(digits.images[:200] / 16, dtype=torch.float32), torch.tensor(digits.target[:200]))
loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=True, drop_last=True)
model = Reader(args.batch_size).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(args.epochs):
    total, right = 0.0, 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        x = x.reshape(args.batch_size, -1)
        out = model(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        right += (out.argmax(1) == y).sum().item()
    print(f"{epoch} {total / len(loader):.5f} {right / (len(loader) * args.batch_size):.4f}")
torch.save(model.state_dict(), "reader.pt")
