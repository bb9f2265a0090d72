import torch
from accel_runtime import Accelerator, set_seed
from torch.utils.data import DataLoader, TensorDataset

from model import EMA, Regressor


def main():
    set_seed(2)
    accelerator = Accelerator(split_batches=True)
    x = torch.randn(130, 5)
    y = x.pow(2).sum(1, keepdim=True)
    loader = DataLoader(TensorDataset(x[:100], y[:100]), batch_size=16, shuffle=True)
    test_loader = DataLoader(TensorDataset(x[100:], y[100:]), batch_size=16)
    model = Regressor().to(accelerator.device)
    ema = EMA(model, decay=0.9)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    model, optimizer, loader, test_loader = accelerator.prepare(
        model, optimizer, loader, test_loader
    )
    for epoch in range(2):
        for xb, yb in loader:
            optimizer.zero_grad()
            loss = model.training_loss(xb, yb)
            accelerator.backward(loss)
            optimizer.step()
            ema.update(model)
        squares = 0.0
        with torch.no_grad():
            for xb, yb in test_loader:
                output, yb = accelerator.gather_for_metrics((ema.model(xb), yb))
                squares += (output - yb).pow(2).sum().item()
        accelerator.print(f"epoch {epoch}: width {model.width}, test error {squares / 30:.5f}")
    accelerator.save({"model": accelerator.get_state_dict(model), "ema": ema.model.state_dict()}, "weights.pt")


if __name__ == "__main__":
    main()
