"""No loader: batches by random indices, in a loop of a trainer class, and plain slices for evaluation."""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn


class Trainer:
    def __init__(self, model, images, labels, batch_size=37):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = model.to(self.device)
        self.images, self.labels = images, labels
        self.batch_size = batch_size
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)

    def train_epoch(self):
        self.model.train()
        order = torch.randperm(len(self.images))
        total, hits = 0.0, 0
        for start in range(0, len(order), self.batch_size):
            chosen = order[start : start + self.batch_size]
            x, y = self.images[chosen].to(self.device), self.labels[chosen].to(self.device)
            out = self.model(x)
            loss = F.cross_entropy(out, y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.item() * x.size(0)
            hits += (out.argmax(1) == y).sum().item()
        return total / len(order), hits / len(order)

    @torch.no_grad()
    def evaluate(self, images, labels):
        self.model.eval()
        hits = 0
        for start in range(0, len(images), self.batch_size):
            x = images[start : start + self.batch_size].to(self.device)
            y = labels[start : start + self.batch_size].to(self.device)
            hits += (self.model(x).argmax(1) == y).sum().item()
        return hits / len(images)


def main():
    torch.manual_seed(7)
    digits = load_digits()
    images = torch.tensor(digits.data / 16, dtype=torch.float32)
    labels = torch.tensor(digits.target)
    model = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))
    trainer = Trainer(model, images[:333], labels[:333])
    for epoch in range(3):
        loss, accuracy = trainer.train_epoch()
        print(f"epoch {epoch} loss {loss:.5f} accuracy {accuracy:.4f} test {trainer.evaluate(images[333:500], labels[333:500]):.4f}")
    torch.save(model.state_dict(), "by_index.pt")


if __name__ == "__main__":
    main()
