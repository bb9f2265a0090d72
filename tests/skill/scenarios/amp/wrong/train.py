import torch
import torch.nn.functional as F
from accel_runtime import Accelerator, set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

set_seed(6)
accelerator = Accelerator(mixed_precision="fp16")
x = torch.randn(140, 16)
y = torch.randint(0, 5, (140,))
loader = DataLoader(TensorDataset(x, y), batch_size=20, shuffle=True)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 5))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in range(3):
    norms, losses = [], []
    for xb, yb in loader:
        optimizer.zero_grad(set_to_none=True)
        with accelerator.autocast():
            loss = F.cross_entropy(model(xb), yb)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        accelerator.backward(loss)
        optimizer.step()
        norms.append(norm.item())
        losses.append(loss.item())
    accelerator.print(f"epoch {epoch}: loss {sum(losses) / len(losses):.5f}, norm {sum(norms) / len(norms):.5f}")
accelerator.save(accelerator.unwrap_model(model).state_dict(), "model.pt")
