import torch
from accel_runtime import Accelerator, set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ACCUMULATE = 4

set_seed(0)
accelerator = Accelerator(gradient_accumulation_steps=ACCUMULATE)
x = torch.randn(232, 10)
y = (x[:, :3].sum(1) > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
model = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
criterion = nn.CrossEntropyLoss()
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

for epoch in range(2):
    total, updates = 0.0, 0
    for inputs, targets in loader:
        with accelerator.accumulate(model):
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            accelerator.backward(loss / ACCUMULATE)
            optimizer.step()
            updates += accelerator.sync_gradients
        total += loss.item()
    accelerator.print(f"epoch {epoch}: loss {total / len(loader):.4f}, {updates} updates")
accelerator.save(accelerator.unwrap_model(model).state_dict(), "model.pt")
