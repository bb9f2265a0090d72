"""No loader: samples are lists of numbers, windows of a text; batches are slices of their shuffled list, or drawn from it."""

import random

import torch
import torch.nn.functional as F
from torch import nn

WINDOW, STRIDE, BATCH = 10, 4, 7


def windows(tokens):
    samples = []
    start = 0
    while start < len(tokens) - WINDOW:
        samples.append(tokens[start : start + WINDOW])
        start += STRIDE
    return samples


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.EmbeddingBag(30, 12)
        self.head = nn.Linear(12, 3)

    def forward(self, ids):
        return self.head(self.embedding(ids))


def main():
    random.seed(5)
    torch.manual_seed(5)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokens = [random.randrange(30) for _ in range(400)]
    samples = windows(tokens)
    model = Classifier().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for epoch in range(3):
        random.shuffle(samples)
        total = 0.0
        for step in range(len(samples) // BATCH):
            batch = samples[step * BATCH : (step + 1) * BATCH]
            inputs, labels = [], []
            for ids in batch:
                inputs.append([int(i) for i in ids])
                labels.append(sum(ids) % 3)
            inputs = torch.tensor(inputs).long().to(device)
            labels = torch.tensor(labels).to(device)
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            total += loss.item()
        print(f"epoch {epoch}: {total / (len(samples) // BATCH):.5f}")

    for step in range(8):
        drawn = random.sample(samples, BATCH)
        inputs = torch.tensor(drawn).to(device)
        loss = F.cross_entropy(model(inputs), inputs.sum(1) % 3)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"drawn {step}: {loss.item():.5f}")
    torch.save(model.state_dict(), "sample_lists.pt")


if __name__ == "__main__":
    main()
