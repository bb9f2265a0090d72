import torch
from accel_runtime import Accelerator, set_seed
from torch import nn

from data import loaders

PATIENCE = 2


def validate(model, loader, criterion, accelerator):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for x, y in loader:
            output, y = accelerator.gather_for_metrics((model(x), y))
            total += criterion(output, y).item() * accelerator.global_len(x)
    return total / len(loader.dataset)


def main():
    set_seed(11)
    accelerator = Accelerator(split_batches=True)
    train_loader, valid_loader = loaders(16)
    model = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    model, optimizer, train_loader, valid_loader = accelerator.prepare(
        model, optimizer, train_loader, valid_loader
    )
    criterion = nn.MSELoss()
    best, bad = float("inf"), 0
    for epoch in range(12):
        model.train()
        for x, y in train_loader:
            optimizer.zero_grad()
            accelerator.backward(criterion(model(x), y))
            optimizer.step()
        loss = validate(model, valid_loader, criterion, accelerator)
        accelerator.print(f"epoch {epoch}: validation {loss:.6e}")
        if loss < best:
            best, bad = loss, 0
            accelerator.save(accelerator.get_state_dict(model), "best.pt")
        else:
            bad += 1
            if bad == PATIENCE:
                accelerator.print(f"stopped in epoch {epoch}, best {best:.6e}")
                break


if __name__ == "__main__":
    main()
