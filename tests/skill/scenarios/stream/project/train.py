import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Numbers(IterableDataset):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        info = get_worker_info()
        start, step = (0, 1) if info is None else (info.id, info.num_workers)
        for i in range(start, self.count, step):
            x = torch.tensor([i % 7, i % 11, i % 13], dtype=torch.float32) / 10
            yield x, x.sum().sin().view(1)


torch.manual_seed(4)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = DataLoader(Numbers(210), batch_size=20, num_workers=2)
model = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
seen, total = 0, 0.0
for epoch in range(2):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        seen += len(x)
        total += loss.item() * len(x)
    print(f"epoch {epoch}: {seen} samples, loss {total / seen:.5f}")
torch.save(model.state_dict(), "model.pt")
