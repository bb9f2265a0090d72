"""A Trainer class with resume, early stopping, best/last checkpoints and a plateau scheduler."""
import argparse
import json
from pathlib import Path

import torch
import torch.nn as nn
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset, random_split


class Trainer:
    def __init__(self, model, train_loader, val_loader, args):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = model.to(self.device)
        self.train_loader = train_loader
        self.val_loader = val_loader
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=args.lr, momentum=0.9)
        self.scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(self.optimizer, mode="max", patience=0, factor=0.5)
        self.best_acc = 0.0
        self.bad_epochs = 0
        self.start_epoch = 0
        self.patience = args.patience
        self.out_dir = Path(args.out)
        self.out_dir.mkdir(parents=True, exist_ok=True)
        self.history = []
        if args.resume:
            self.load_checkpoint(args.resume)

    def _run_batch(self, batch):
        x, y = batch
        x, y = x.to(self.device), y.to(self.device)
        logits = self.model(x)
        return self.criterion(logits, y), logits, y

    def train_epoch(self):
        self.model.train()
        total_loss, correct, seen = 0.0, 0, 0
        for batch in self.train_loader:
            loss, logits, y = self._run_batch(batch)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total_loss += loss.item() * y.size(0)
            correct += (logits.argmax(1) == y).sum().item()
            seen += y.size(0)
        return total_loss / seen, correct / seen

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        total_loss, correct, seen = 0.0, 0, 0
        for batch in self.val_loader:
            loss, logits, y = self._run_batch(batch)
            total_loss += loss.item() * y.size(0)
            correct += (logits.argmax(1) == y).sum().item()
            seen += y.size(0)
        return total_loss / seen, correct / seen

    def save_checkpoint(self, name, epoch):
        state = {
            "epoch": epoch,
            "model_state_dict": self.model.state_dict(),
            "optimizer_state_dict": self.optimizer.state_dict(),
            "scheduler_state_dict": self.scheduler.state_dict(),
            "best_acc": self.best_acc,
        }
        torch.save(state, self.out_dir / name)

    def load_checkpoint(self, path):
        ckpt = torch.load(path, map_location=self.device, weights_only=False)
        self.model.load_state_dict(ckpt["model_state_dict"])
        self.optimizer.load_state_dict(ckpt["optimizer_state_dict"])
        self.scheduler.load_state_dict(ckpt["scheduler_state_dict"])
        self.start_epoch = ckpt["epoch"] + 1
        self.best_acc = ckpt["best_acc"]
        print(f"Resumed from {path} at epoch {self.start_epoch}")

    def fit(self, epochs):
        for epoch in range(self.start_epoch, epochs):
            train_loss, train_acc = self.train_epoch()
            val_loss, val_acc = self.evaluate()
            self.scheduler.step(val_acc)
            print(f"Epoch {epoch + 1}/{epochs} | train {train_loss:.4f} {train_acc:.3f} | val {val_loss:.4f} {val_acc:.3f}")
            self.history.append({"epoch": epoch, "train_loss": train_loss, "val_acc": val_acc})
            if val_acc > self.best_acc:
                self.best_acc = val_acc
                self.bad_epochs = 0
                self.save_checkpoint("best.pt", epoch)
            else:
                self.bad_epochs += 1
                if self.bad_epochs > self.patience:
                    print("early stop")
                    break
            self.save_checkpoint("last.pt", epoch)
        (self.out_dir / "history.json").write_text(json.dumps(self.history))


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--patience", type=int, default=1)
    parser.add_argument("--out", default="ckpt")
    parser.add_argument("--resume", default=None)
    return parser.parse_args()


if __name__ == "__main__":
    args = get_args()
    torch.manual_seed(0)
    digits = load_digits()
    data = TensorDataset(torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1)[:600] / 16, torch.tensor(digits.target)[:600])
    train_set, val_set = random_split(data, [500, 100], generator=torch.Generator().manual_seed(42))
    model = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(216, 10))
    trainer = Trainer(model, DataLoader(train_set, 64, shuffle=True), DataLoader(val_set, 64), args)
    trainer.fit(args.epochs)
    print(f"best accuracy: {trainer.best_acc:.4f}")
