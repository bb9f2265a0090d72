import torch
import torch.nn.functional as F
from accel_runtime import Accelerator, set_seed
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


set_seed(4)
accelerator = Accelerator()
loader = DataLoader(Numbers(210), batch_size=20, num_workers=2)
model = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = accelerator.prepare(model, optimizer)
seen, total = 0, 0.0
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        accelerator.backward(loss)
        optimizer.step()
        seen += len(x) * accelerator.num_processes
        total += loss.item() * len(x) * accelerator.num_processes
    accelerator.print(f"epoch {epoch}: {seen} samples, loss {total / seen:.5f}")
accelerator.save(accelerator.unwrap_model(model).state_dict(), "model.pt")
