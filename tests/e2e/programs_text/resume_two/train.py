"""Two phases in one run: train, save, resume from the file with a helper, go on; strict=False; a moving best by loss; counters for patience inside the batch loop."""
import os
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
X = torch.randn(60, 6)
Y = (X.sum(1) > 0).long()
loader = DataLoader(TensorDataset(X, Y), batch_size=13, shuffle=True)


def build():
    model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 2)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    return model, optimizer


def save_ckpt(path, model, optimizer, epoch, **extra):
    tmp = path + ".tmp"
    torch.save(dict(model=model.state_dict(), optim=optimizer.state_dict(), epoch=epoch, **extra), tmp)
    os.replace(tmp, path)


def load_ckpt(path, model, optimizer=None):
    ckpt = torch.load(path, map_location=lambda storage, loc: storage)
    missing, unexpected = model.load_state_dict(ckpt["model"], strict=False)
    print("missing", len(missing), "unexpected", len(unexpected))
    if optimizer is not None:
        optimizer.load_state_dict(ckpt["optim"])
    return ckpt["epoch"]


def run(model, optimizer, start, end):
    criterion = nn.CrossEntropyLoss()
    best, bad = float("inf"), 0
    for epoch in range(start, end):
        for i, (x, y) in enumerate(loader):
            x, y = x.to(device), y.to(device)
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if loss < best:
                best, bad = loss.item(), 0
            else:
                bad += 1
                if bad == 6:
                    print("plateau at", epoch, i)
                    break
        print(f"epoch {epoch} last {loss.item():.5f} best {best:.5f}")
        save_ckpt("ck.pt", model, optimizer, epoch, best=best)


model, optimizer = build()
run(model, optimizer, 0, 2)
model, optimizer = build()
epoch = load_ckpt("ck.pt", model, optimizer)
run(model, optimizer, epoch + 1, 4)
torch.save(model, "whole.pt")
