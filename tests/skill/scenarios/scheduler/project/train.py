import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=16)
    args = parser.parse_args()
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x = torch.randn(150, 6)
    y = x @ torch.randn(6, 1) + 0.1 * torch.randn(150, 1)
    loader = DataLoader(TensorDataset(x, y), batch_size=args.batch_size, shuffle=True)
    model = nn.Sequential(nn.Linear(6, 24), nn.GELU(), nn.Linear(24, 1)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-2, total_steps=args.epochs * len(loader))
    for epoch in range(args.epochs):
        running = 0.0
        for xb, yb in loader:
            xb, yb = xb.to(device), yb.to(device)
            optimizer.zero_grad()
            loss = F.mse_loss(model(xb), yb)
            loss.backward()
            optimizer.step()
            scheduler.step()
            running += loss.item() * xb.size(0)
        print(f"epoch {epoch}: loss {running / len(loader.dataset):.5f}, lr {scheduler.get_last_lr()[0]:.2e}")
    torch.save({"model": model.state_dict(), "lr": scheduler.get_last_lr()}, "last.pt")


if __name__ == "__main__":
    main()
