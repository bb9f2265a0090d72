import torch
from torch import nn

from data import loaders

PATIENCE = 2


def validate(model, loader, criterion, device):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            total += criterion(model(x), y).item() * len(x)
    return total / len(loader.dataset)


def main():
    torch.manual_seed(11)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_loader, valid_loader = loaders(16)
    model = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    criterion = nn.MSELoss()
    best, bad = float("inf"), 0
    for epoch in range(12):
        model.train()
        for x, y in train_loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        loss = validate(model, valid_loader, criterion, device)
        print(f"epoch {epoch}: validation {loss:.6e}")
        if loss < best:
            best, bad = loss, 0
            torch.save(model.state_dict(), "best.pt")
        else:
            bad += 1
            if bad == PATIENCE:
                print(f"stopped in epoch {epoch}, best {best:.6e}")
                break


if __name__ == "__main__":
    main()
