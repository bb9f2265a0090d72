import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset, random_split


class ModelEMA(nn.Module):
    def __init__(self, model, decay=0.9, device=None):
        super().__init__()
        self.module = copy.deepcopy(model)
        self.module.eval()
        self.decay = decay
        self.device = device
        if self.device is not None:
            self.module.to(device=device)

    def _update(self, model, update_fn):
        with torch.no_grad():
            for ema_v, model_v in zip(self.module.state_dict().values(), model.state_dict().values()):
                if self.device is not None:
                    model_v = model_v.to(device=self.device)
                ema_v.copy_(update_fn(ema_v, model_v))

    def update(self, model):
        self._update(model, update_fn=lambda e, m: self.decay * e + (1. - self.decay) * m)


class LabelSmoothingLoss(nn.Module):
    def __init__(self, classes, smoothing=0.1):
        super().__init__()
        self.confidence = 1.0 - smoothing
        self.smoothing = smoothing
        self.cls = classes

    def forward(self, pred, target):
        pred = pred.log_softmax(dim=-1)
        with torch.no_grad():
            true_dist = torch.zeros_like(pred)
            true_dist.fill_(self.smoothing / (self.cls - 1))
            true_dist.scatter_(1, target.data.unsqueeze(1), self.confidence)
        return torch.mean(torch.sum(-true_dist * pred, dim=-1))


def cosine(optimizer, warmup, total):
    def fn(step):
        if step < warmup:
            return (step + 1) / warmup
        return 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup)))
    return torch.optim.lr_scheduler.LambdaLR(optimizer, fn)


@torch.no_grad()
def validate(model, loader, criterion, device):
    model.eval()
    losses, top1, seen = 0., 0., 0
    for images, target in loader:
        images = images.to(device, non_blocking=True)
        target = target.to(device, non_blocking=True)
        output = model(images)
        loss = criterion(output, target)
        n = images.size(0)
        losses += loss.item() * n
        top1 += (output.argmax(1) == target).float().mean().item() * n
        seen += n
    return losses / seen, 100. * top1 / seen


def main():
    torch.manual_seed(3)
    device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
    d = load_digits()
    ds = TensorDataset(torch.tensor(d.data[:420] / 16).float(), torch.tensor(d.target[:420]))
    train_ds, val_ds = random_split(ds, [320, 100])
    train_loader = DataLoader(train_ds, batch_size=50, shuffle=True, drop_last=True)
    val_loader = DataLoader(val_ds, batch_size=32)
    model = nn.Sequential(nn.Linear(64, 32, bias=False), nn.BatchNorm1d(32), nn.GELU(), nn.Linear(32, 10))
    model.to(device)
    ema = ModelEMA(model, decay=0.8, device=device)
    criterion = LabelSmoothingLoss(10)
    val_criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW([
        {"params": model[0].parameters(), "lr": 5e-3},
        {"params": [p for m in list(model)[1:] for p in m.parameters()], "lr": 1e-2},
    ])
    epochs = 3
    scheduler = cosine(optimizer, 4, epochs * len(train_loader))
    best, step = 0., 0
    for epoch in range(epochs):
        model.train()
        running = None
        for images, target in train_loader:
            images, target = images.to(device), target.to(device)
            loss = criterion(model(images), target)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            scheduler.step()
            ema.update(model)
            step += 1
            running = loss.item() if running is None else 0.9 * running + 0.1 * loss.item()
        l, a = validate(model, val_loader, val_criterion, device)
        le, ae = validate(ema.module, val_loader, val_criterion, device)
        print(f"epoch {epoch} step {step} running {running:.4f} val {l:.4f} {a:.2f}% ema {le:.4f} {ae:.2f}%")
        if ae > best:
            best = ae
            torch.save({"ema": ema.module.state_dict(), "model": model.state_dict(), "sched": scheduler.state_dict()}, "best.pt")


if __name__ == "__main__":
    main()
