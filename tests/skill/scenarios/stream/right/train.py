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
accelerator = Accelerator(split_batches=True)
loader = DataLoader(Numbers(210), batch_size=20, num_workers=2)
model = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
seen, total = 0, 0.0
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        accelerator.backward(loss)
        optimizer.step()
        seen += accelerator.global_len(x)
        total += accelerator.global_mean(loss).item() * accelerator.global_len(x)
    accelerator.print(f"epoch {epoch}: {seen} samples, loss {total / seen:.5f}")
accelerator.save(accelerator.get_state_dict(model), "model.pt")
