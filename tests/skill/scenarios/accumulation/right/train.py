import torch
from accel_runtime import Accelerator, set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ACCUMULATE = 4

set_seed(0)
accelerator = Accelerator(split_batches=True)
x = torch.randn(232, 10)
y = (x[:, :3].sum(1) > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
model = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
criterion = nn.CrossEntropyLoss()

for epoch in range(2):
    total, updates = 0.0, 0
    optimizer.zero_grad()
    for i, (inputs, targets) in enumerate(loader):
        loss = criterion(model(inputs), targets)
        accelerator.backward(loss / ACCUMULATE, sync=(i + 1) % ACCUMULATE == 0 or i + 1 == len(loader))
        if (i + 1) % ACCUMULATE == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
            updates += 1
        total += accelerator.global_mean(loss).item()
    accelerator.print(f"epoch {epoch}: loss {total / len(loader):.4f}, {updates} updates")
accelerator.save(accelerator.get_state_dict(model), "model.pt")
