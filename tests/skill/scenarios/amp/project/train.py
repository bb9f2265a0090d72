import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(6)
cuda = torch.cuda.is_available()
device = torch.device("cuda" if cuda else "cpu")
x = torch.randn(140, 16)
y = torch.randint(0, 5, (140,))
loader = DataLoader(TensorDataset(x, y), batch_size=20, shuffle=True)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 5)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
scaler = torch.amp.GradScaler("cuda", enabled=cuda)
for epoch in range(3):
    norms, losses = [], []
    for xb, yb in loader:
        xb, yb = xb.to(device), yb.to(device)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.float16, enabled=cuda):
            loss = F.cross_entropy(model(xb), yb)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        scaler.step(optimizer)
        scaler.update()
        norms.append(norm.item())
        losses.append(loss.item())
    print(f"epoch {epoch}: loss {sum(losses) / len(losses):.5f}, norm {sum(norms) / len(norms):.5f}")
torch.save(model.state_dict(), "model.pt")
