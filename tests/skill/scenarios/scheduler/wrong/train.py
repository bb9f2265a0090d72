import argparse

import torch
import torch.nn.functional as F
from accel_runtime import Accelerator, set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=16)
    args = parser.parse_args()
    set_seed(1)
    accelerator = Accelerator()
    x = torch.randn(150, 6)
    y = x @ torch.randn(6, 1) + 0.1 * torch.randn(150, 1)
    loader = DataLoader(TensorDataset(x, y), batch_size=args.batch_size, shuffle=True)
    model = nn.Sequential(nn.Linear(6, 24), nn.GELU(), nn.Linear(24, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-2, total_steps=args.epochs * len(loader))
    for epoch in range(args.epochs):
        running = 0.0
        for xb, yb in loader:
            optimizer.zero_grad()
            loss = F.mse_loss(model(xb), yb)
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            running += accelerator.gather(loss.detach()).sum().item() * xb.size(0)
        accelerator.print(f"epoch {epoch}: loss {running / len(loader.dataset):.5f}, lr {scheduler.get_last_lr()[0]:.2e}")
    if accelerator.is_main_process:
        torch.save({"model": accelerator.unwrap_model(model).state_dict(), "lr": scheduler.get_last_lr()}, "last.pt")


if __name__ == "__main__":
    main()
