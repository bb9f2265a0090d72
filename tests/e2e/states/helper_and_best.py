"""A flat script: a helper saves at the end of each epoch and keeps the best; it loads before the optimizer is made."""
import argparse
import os
import shutil

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--resume", default="")
parser.add_argument("--start-epoch", default=0, type=int)
parser.add_argument("--epochs", type=int, default=3)
args = parser.parse_args()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.ReLU(), nn.Linear(8, 2)).to(device)
best = float("inf")
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
if args.resume:
    if os.path.isfile(args.resume):
        # what was saved
        print(f"=> loading '{args.resume}'")
        checkpoint = torch.load(args.resume, map_location=device)
        args.start_epoch = checkpoint["epoch"]
        best = checkpoint["best"]
        model.load_state_dict(checkpoint["state_dict"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        print("=> loaded '{}' (epoch {})".format(args.resume, checkpoint["epoch"]))
    else:
        print(f"=> nothing found at '{args.resume}'")
features = torch.randn(50, 4)
dataset = TensorDataset(features, (features.sum(1) > 0).long())
loader = DataLoader(dataset, batch_size=8, shuffle=True)


def save_checkpoint(state, is_best, filename="checkpoint.pth.tar"):
    torch.save(state, filename)
    if is_best:
        shutil.copyfile(filename, "model_best.pth.tar")


for epoch in range(args.start_epoch, args.epochs):
    total = 0.0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: {total:.6f}")
    is_best = total < best
    best = min(total, best)
    save_checkpoint(
        {
            "epoch": epoch + 1,
            "arch": "mlp",
            "state_dict": model.state_dict(),
            "best": best,
            "optimizer": optimizer.state_dict(),
        },
        is_best,
    )
torch.save(model.state_dict(), "final.pt")
