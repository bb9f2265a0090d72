import torch
from torch.utils.data import DataLoader, TensorDataset

from model import EMA, Regressor


def main():
    torch.manual_seed(2)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x = torch.randn(130, 5)
    y = x.pow(2).sum(1, keepdim=True)
    loader = DataLoader(TensorDataset(x[:100], y[:100]), batch_size=16, shuffle=True)
    test_loader = DataLoader(TensorDataset(x[100:], y[100:]), batch_size=16)
    model = Regressor().to(device)
    ema = EMA(model, decay=0.9)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(2):
        for xb, yb in loader:
            xb, yb = xb.to(device), yb.to(device)
            optimizer.zero_grad()
            loss = model.training_loss(xb, yb)
            loss.backward()
            optimizer.step()
            ema.update(model)
        squares = 0.0
        with torch.no_grad():
            for xb, yb in test_loader:
                xb, yb = xb.to(device), yb.to(device)
                squares += (ema.model(xb) - yb).pow(2).sum().item()
        print(f"epoch {epoch}: width {model.width}, test error {squares / 30:.5f}")
    torch.save({"model": model.state_dict(), "ema": ema.model.state_dict()}, "weights.pt")


if __name__ == "__main__":
    main()
