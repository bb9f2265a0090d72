import csv
import json
import logging
import os
import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

OUT = "runs/first"


class Noisy(Dataset):
    """Each sample is augmented by noise when it is read."""

    def __init__(self, n):
        self.x = torch.randn(n, 6)
        self.y = (self.x[:, 0] > 0).long()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i] + 0.1 * torch.randn(6) * random.random(), self.y[i]


def main():
    os.makedirs(OUT)
    logging.basicConfig(filename=f"{OUT}/train.log", level=logging.INFO, format="%(message)s")
    random.seed(8)
    torch.manual_seed(8)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(Noisy(77), batch_size=12, shuffle=True)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2)).to(device)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=3e-3)
    with open(f"{OUT}/metrics.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["epoch", "loss", "accuracy"])
        for epoch in range(2):
            losses, hits = [], 0
            for x, y in loader:
                x, y = x.to(device), y.to(device)
                out = model(x)
                loss = F.cross_entropy(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
                hits += (out.argmax(1) == y).sum().item()
            table.writerow([epoch, f"{sum(losses) / len(losses):.4f}", f"{hits / len(loader.dataset):.4f}"])
            logging.info("epoch %d: loss %.4f", epoch, sum(losses) / len(losses))
    with open(f"{OUT}/config.json", "w") as file:
        json.dump({"epochs": 2, "samples": len(loader.dataset)}, file)
    torch.save(model.state_dict(), f"{OUT}/model.pt")
    print("done")


if __name__ == "__main__":
    main()
