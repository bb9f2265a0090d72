import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def get_device():
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("cpu")


class Trainer:
    def __init__(self, model, criterion, optimizer, device=None):
        self.device = device if device is not None else get_device()
        self.model = model.to(self.device)
        self.criterion = criterion
        self.optimizer = optimizer
        self.history = {"train_loss": [], "val_loss": [], "val_acc": []}
        self.best_val = float("inf")

    def _run_batch(self, source, targets):
        self.optimizer.zero_grad()
        output = self.model(source)
        loss = self.criterion(output, targets)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def _run_epoch(self, epoch, loader):
        self.model.train()
        total = 0.0
        for source, targets in loader:
            source = source.to(self.device)
            targets = targets.to(self.device)
            total += self._run_batch(source, targets)
        return total / len(loader)

    def evaluate(self, loader):
        self.model.eval()
        total_loss, correct, n = 0.0, 0, 0
        with torch.no_grad():
            for x, y in loader:
                x, y = x.to(self.device), y.to(self.device)
                logits = self.model(x)
                total_loss += self.criterion(logits, y).item() * x.size(0)
                correct += (logits.argmax(dim=1) == y).sum().item()
                n += x.size(0)
        return total_loss / n, correct / n

    def fit(self, train_loader, val_loader=None, epochs=10, checkpoint=None):
        for epoch in range(1, epochs + 1):
            train_loss = self._run_epoch(epoch, train_loader)
            self.history["train_loss"].append(train_loss)
            msg = f"Epoch {epoch:02d} | train {train_loss:.4f}"
            if val_loader is not None:
                val_loss, val_acc = self.evaluate(val_loader)
                self.history["val_loss"].append(val_loss)
                self.history["val_acc"].append(val_acc)
                msg += f" | val {val_loss:.4f} acc {val_acc:.3f}"
                if val_loss < self.best_val:
                    self.best_val = val_loss
                    if checkpoint:
                        self.save(checkpoint, epoch)
            print(msg)
        return self.history

    def save(self, path, epoch):
        torch.save({"epoch": epoch, "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "best": self.best_val}, path)

    def load(self, path):
        ckpt = torch.load(path, map_location=self.device, weights_only=True)
        self.model.load_state_dict(ckpt["model"])
        self.optimizer.load_state_dict(ckpt["optimizer"])
        return ckpt["epoch"]


def main():
    torch.manual_seed(0)
    x = torch.randn(210, 8)
    y = (x[:, :4].sum(1) > x[:, 4:].sum(1)).long()
    train_loader = DataLoader(TensorDataset(x[:150], y[:150]), batch_size=32, shuffle=True)
    val_loader = DataLoader(TensorDataset(x[150:], y[150:]), batch_size=32)
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    trainer = Trainer(model, nn.CrossEntropyLoss(), optimizer)
    history = trainer.fit(train_loader, val_loader, epochs=3, checkpoint="best.pt")
    epoch = trainer.load("best.pt")
    print("best epoch", epoch, "final", trainer.evaluate(val_loader))
    torch.save(history, "history.pt")


if __name__ == "__main__":
    main()
