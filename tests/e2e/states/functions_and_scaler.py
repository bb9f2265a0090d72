"""Functions that are handed the objects: mixed precision, accumulation by hand, a scheduler that looks at a metric."""
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PATH = "last.ckpt"


def load_checkpoint(path, model, optimizer, scheduler, scaler):
    checkpoint = torch.load(path, map_location="cpu")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    scheduler.load_state_dict(checkpoint["scheduler"])
    scaler.load_state_dict(checkpoint["scaler"])
    return checkpoint["epoch"], checkpoint["global_step"]


def save_checkpoint(path, epoch, global_step, model, optimizer, scheduler, scaler):
    torch.save(
        {
            "epoch": epoch,
            "global_step": global_step,
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
            "scaler": scaler.state_dict(),
        },
        path,
    )


def main():
    torch.manual_seed(2)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    features = torch.randn(64, 4)
    loader = DataLoader(TensorDataset(features, features.sum(1, keepdim=True)), batch_size=8, shuffle=True)
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.Tanh(), nn.Linear(8, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    scaler = torch.cuda.amp.GradScaler(enabled=False)
    start_epoch, global_step = 0, 0
    if os.path.exists(PATH):
        start_epoch, global_step = load_checkpoint(PATH, model, optimizer, scheduler, scaler)
        start_epoch += 1
    for epoch in range(start_epoch, 3):
        total = 0.0
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            global_step += 1
            total += loss.item()
        scheduler.step(total)
        print(f"epoch {epoch}, step {global_step}: {total:.6f}")
        save_checkpoint(PATH, epoch, global_step, model, optimizer, scheduler, scaler)
    torch.save(model.state_dict(), "final.pt")


if __name__ == "__main__":
    main()
