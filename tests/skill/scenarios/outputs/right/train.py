import csv
import json
import logging
import os
import random

import torch
import torch.nn.functional as F
from accel_runtime import Accelerator, set_seed
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
    accelerator = Accelerator(split_batches=True)
    if accelerator.is_main_process:
        os.makedirs(OUT)
    logging.basicConfig(filename=f"{OUT}/train.log" if accelerator.is_main_process else os.devnull, level=logging.INFO if accelerator.is_main_process else logging.WARNING, format="%(message)s")
    set_seed(8)
    loader = DataLoader(Noisy(77), batch_size=12, shuffle=True)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=3e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    with open(f"{OUT}/metrics.csv" if accelerator.is_main_process else os.devnull, "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["epoch", "loss", "accuracy"])
        for epoch in range(2):
            losses, hits = [], 0
            for x, y in loader:
                out = model(x)
                loss = F.cross_entropy(out, y)
                optimizer.zero_grad()
                accelerator.backward(loss)
                optimizer.step()
                losses.append(accelerator.global_mean(loss).item())
                hits += accelerator.global_sum((out.argmax(1) == y).sum()).item()
            table.writerow([epoch, f"{sum(losses) / len(losses):.4f}", f"{hits / len(loader.dataset):.4f}"])
            logging.info("epoch %d: loss %.4f", epoch, sum(losses) / len(losses))
    if accelerator.is_main_process:
        with open(f"{OUT}/config.json", "w") as file:
            json.dump({"epochs": 2, "samples": len(loader.dataset)}, file)
    accelerator.save(accelerator.get_state_dict(model), f"{OUT}/model.pt")
    accelerator.print("done")


if __name__ == "__main__":
    main()
