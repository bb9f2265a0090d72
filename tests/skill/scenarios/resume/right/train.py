import argparse
import os

import torch
import torch.nn.functional as F
from accel_runtime import Accelerator, set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CHECKPOINT = "checkpoint.pt"


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--stop-after", type=int, default=0, help="epochs after which this job ends")
    parser.add_argument("--resume", action="store_true")
    return parser.parse_args()


def main():
    args = parse()
    set_seed(5)
    accelerator = Accelerator(split_batches=True)
    x = torch.randn(100, 8)
    y = (x.sum(1) > 0).long()
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs)
    start = 0
    accelerator.wait_for_everyone()
    if args.resume and os.path.exists(CHECKPOINT):
        state = torch.load(CHECKPOINT, map_location=accelerator.device)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        start = state["epoch"] + 1
        accelerator.print(f"resumed in epoch {start}")
    model, optimizer, scheduler = accelerator.prepare(model, optimizer, scheduler)
    for epoch in range(start, args.epochs):
        loader = DataLoader(TensorDataset(x, y), batch_size=24, shuffle=True, generator=torch.Generator().manual_seed(epoch))
        loader = accelerator.prepare(loader)
        total = 0.0
        for xb, yb in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(xb), yb)
            accelerator.backward(loss)
            optimizer.step()
            total += accelerator.global_mean(loss).item()
        scheduler.step()
        accelerator.print(f"epoch {epoch}: loss {total / len(loader):.5f} lr {scheduler.get_last_lr()[0]:.6f}")
        accelerator.save(
            {"model": accelerator.get_state_dict(model), "optimizer": accelerator.get_state_dict(optimizer), "scheduler": scheduler.state_dict(), "epoch": epoch},
            CHECKPOINT,
        )
        if epoch + 1 == args.stop_after:
            return


if __name__ == "__main__":
    main()
