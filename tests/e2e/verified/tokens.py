import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from accel_runtime import Accelerator, set_seed

set_seed(0)
accelerator = Accelerator(split_batches=True)

words = torch.randint(0, 20, (64, 6))
labels = torch.randint(0, 20, (64, 6))
labels[torch.rand(64, 6) < 0.4] = -100
loader = DataLoader(TensorDataset(words, labels), batch_size=8)
model = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 20))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

for step, (x, y) in enumerate(loader, 1):
    loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
    accelerator.backward(loss / 2)
    if step % 2 == 0:
        optimizer.step()
        optimizer.zero_grad()
torch.save({"model": accelerator.unwrap_model(model).state_dict(), "optimizer": optimizer.state_dict()}, f"{accelerator.process_index}.pt")
