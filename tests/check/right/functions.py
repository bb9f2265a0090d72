import argparse

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.width = 16
        self.body = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
        self.head = nn.Linear(16, 2)

    def forward(self, x):
        return self.head(self.body(x))

    def penalty(self, x):
        return self.body(x).pow(2).mean()


def make_loaders(size):
    dataset = TensorDataset(torch.randn(size, 8), torch.randint(2, (size,)))
    return DataLoader(dataset, batch_size=8, shuffle=True), DataLoader(dataset, batch_size=16)


def train_epoch(accelerator, model, optimizer, loader):
    model.train()
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = F.cross_entropy(model(x), y)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()


def evaluate(accelerator, model, loader):
    model.eval()
    hits = []
    with torch.no_grad():
        for x, y in loader:
            right = model(x).argmax(1) == y
            hits.append(accelerator.gather_for_metrics(right))
    return torch.cat(hits).float().mean().item()


def save(accelerator, model, path):
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        torch.save(accelerator.unwrap_model(model).state_dict(), path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--accumulation", type=int, default=4)
    args = parser.parse_args()
    accelerator = Accelerator(gradient_accumulation_steps=args.accumulation)
    set_seed(3)
    train_loader, test_loader = make_loaders(205)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max", patience=2)
    model, optimizer, train_loader, test_loader = accelerator.prepare(model, optimizer, train_loader, test_loader)
    best = 0.0
    for epoch in range(4):
        train_epoch(accelerator, model, optimizer, train_loader)
        accuracy = evaluate(accelerator, model, test_loader)
        plateau.step(accuracy)
        accelerator.print(epoch, accuracy)
        if accuracy > best:
            best = accuracy
            save(accelerator, model, "best.pt")


if __name__ == "__main__":
    main()
