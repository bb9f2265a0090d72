import torch
from accel_runtime import Accelerator, set_seed
from torch import nn

from data import loaders

PATIENCE = 2


def validate(model, loader, criterion):
    model.eval()
    total, count = 0.0, 0
    with torch.no_grad():
        for x, y in loader:
            total += criterion(model(x), y).item() * len(x)
            count += len(x)
    return total / count


def main():
    set_seed(11)
    accelerator = Accelerator(split_batches=True)
    train_loader, valid_loader = loaders(16)
    model = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    criterion = nn.MSELoss()
    model, optimizer, train_loader, valid_loader = accelerator.prepare(model, optimizer, train_loader, valid_loader)
    best, bad = float("inf"), 0
    for epoch in range(12):
        model.train()
        for x, y in train_loader:
            optimizer.zero_grad()
            accelerator.backward(criterion(model(x), y))
            optimizer.step()
        loss = validate(model, valid_loader, criterion)
        accelerator.print(f"epoch {epoch}: validation {loss:.6e}")
        if loss < best:
            best, bad = loss, 0
            accelerator.save(model.state_dict(), "best.pt")
        else:
            bad += 1
            if bad == PATIENCE:
                accelerator.print(f"stopped in epoch {epoch}, best {best:.6e}")
                break


if __name__ == "__main__":
    main()
