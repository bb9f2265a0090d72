"""A trainer that saves every few steps, passes over what it has seen, and has an average of the weights."""
import argparse
import copy
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Average:
    def __init__(self, model):
        self.module = copy.deepcopy(model)

    def update(self, model):
        with torch.no_grad():
            for mine, new in zip(self.module.parameters(), model.parameters()):
                mine.lerp_(new, 0.1)

    def state_dict(self):
        return self.module.state_dict()

    def load_state_dict(self, state):
        self.module.load_state_dict(state)


class Trainer:
    def __init__(self, args):
        self.args = args
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.Tanh(), nn.Linear(8, 1)).to(self.device)
        self.average = Average(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 30)
        features = torch.randn(60, 4)
        self.loader = DataLoader(TensorDataset(features, features.sum(1, keepdim=True)), batch_size=7, shuffle=True)
        self.start_epoch = 0
        self.start_step = 0
        self.history = []
        if args.resume:
            self.restore(args.resume)

    def restore(self, path):
        state = torch.load(path, map_location=self.device)
        self.model.load_state_dict(state["model"])
        self.average.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])
        if "scheduler" in state:
            self.scheduler.load_state_dict(state["scheduler"])
        self.start_epoch = state["epoch"]
        self.start_step = state["step"]
        self.history = state.get("history", [])
        print(f"resumed in epoch {self.start_epoch} after step {self.start_step}")

    def save(self, epoch, step):
        state = {
            "model": self.model.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "epoch": epoch,
            "step": step,
            "history": self.history,
            "args": self.args,
        }
        torch.save(state, os.path.join(self.args.output, "last.pt"))

    def train(self):
        for epoch in range(self.start_epoch, self.args.epochs):
            self.model.train()
            for step, (x, y) in enumerate(self.loader):
                if epoch == self.start_epoch and step <= self.start_step and self.start_step:
                    continue
                x, y = x.to(self.device), y.to(self.device)
                self.optimizer.zero_grad()
                loss = nn.functional.mse_loss(self.model(x), y)
                loss.backward()
                self.optimizer.step()
                self.scheduler.step()
                self.average.update(self.model)
                self.history.append(loss.item())
                if (step + 1) % 4 == 0:
                    self.save(epoch, step)
        print("history", " ".join(f"{value:.6f}" for value in self.history))
        torch.save({"model": self.model.state_dict(), "average": self.average.module.state_dict()}, "final.pt")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--resume", default=None)
    parser.add_argument("--output", default=".")
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(1)
    Trainer(args).train()


if __name__ == "__main__":
    main()
