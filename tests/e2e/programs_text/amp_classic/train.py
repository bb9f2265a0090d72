"""torch.cuda.amp in its classic form with clipping and an enabled flag."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.cuda.amp import GradScaler, autocast
from torch.utils.data import DataLoader, TensorDataset


def build():
    x = torch.randn(203, 10)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    ds = TensorDataset(x, y)
    return torch.utils.data.random_split(ds, [163, 40])


def train_one_epoch(model, loader, optimizer, scaler, device, args):
    model.train()
    running = 0.0
    for x, y in loader:
        x = x.to(device, non_blocking=True)
        y = y.to(device, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with autocast(enabled=args.amp):
            out = model(x)
            loss = F.cross_entropy(out, y)
        scaler.scale(loss).backward()
        if args.clip > 0:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        scaler.step(optimizer)
        scaler.update()
        running += loss.item() * x.size(0)
    return running / len(loader.dataset)


@torch.no_grad()
def validate(model, loader, device, args):
    model.eval()
    correct, total = 0, 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        with autocast(enabled=args.amp):
            out = model(x)
        _, predicted = torch.max(out.data, 1)
        total += y.size(0)
        correct += (predicted == y).sum().item()
    return 100 * correct / total


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--amp", action="store_true")
    p.add_argument("--clip", type=float, default=0.5)
    p.add_argument("--epochs", type=int, default=3)
    args = p.parse_args()
    torch.manual_seed(3)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    train_set, val_set = build()
    train_loader = DataLoader(train_set, batch_size=32, shuffle=True, pin_memory=True)
    val_loader = DataLoader(val_set, batch_size=32)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scaler = GradScaler(enabled=args.amp)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs)
    for epoch in range(args.epochs):
        loss = train_one_epoch(model, train_loader, optimizer, scaler, device, args)
        acc = validate(model, val_loader, device, args)
        scheduler.step()
        print(f"Epoch {epoch}: loss={loss:.4f} acc={acc:.2f}% lr={scheduler.get_last_lr()[0]:.5f}")
        torch.save(
            {
                "epoch": epoch,
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "scaler": scaler.state_dict(),
                "scheduler": scheduler.state_dict(),
            },
            "last.pth",
        )


if __name__ == "__main__":
    main()
