import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from model import EMA, Regressor


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(2)
    x = torch.randn(130, 5)
    y = x.pow(2).sum(1, keepdim=True)
    train = TensorDataset(x[:100], y[:100])
    loader = DataLoader(train, batch_size=8, sampler=DistributedSampler(train))
    test_loader = DataLoader(TensorDataset(x[100:], y[100:]), batch_size=16)
    model = DistributedDataParallel(Regressor())
    ema = EMA(model.module, decay=0.9)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(2):
        for xb, yb in loader:
            optimizer.zero_grad()
            loss = model.module.training_loss(xb, yb)
            loss.backward()
            optimizer.step()
            ema.update(model.module)
        squares = 0.0
        with torch.no_grad():
            for xb, yb in test_loader:
                squares += (ema.model(xb) - yb).pow(2).sum().item()
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: width {model.module.width}, test error {squares / 30:.5f}")
    if dist.get_rank() == 0:
        torch.save({"model": model.module.state_dict(), "ema": ema.model.state_dict()}, "weights.pt")


if __name__ == "__main__":
    main()
