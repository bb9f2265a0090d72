import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
BATCH = 8
X = torch.randn(53, 6)
dataset = TensorDataset(X, X[:, :3].argmax(1))
loader = DataLoader(dataset, batch_size=BATCH, shuffle=True)
model = nn.Linear(6, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    outputs, targets, scores = [], [], []
    easy, kept, hits, chosen = 0, 0, 0, 0
    for x, y in loader:
        if x.size(0) < BATCH:
            continue
        mask = y != 2
        if mask.sum() == 0:
            continue
        out = model(x)
        loss = F.cross_entropy(out[mask], y[mask])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        outputs.append(out.detach())
        targets.append(y)
        scores.append(out.argmax(1))
        idx = mask.nonzero().squeeze(1)
        kept += x[mask].shape[0]
        chosen += len(idx)
        easy += x[mask][:, 0].sum().item()
        hits += (out[idx].argmax(1) == y[idx]).float().mean().item()
        hits += torch.masked_select(out[:, 0], mask).mean().item()
    out, y = torch.cat(outputs), torch.cat(targets)
    accuracy = (out.argmax(1) == y).float().mean().item()
    entropy = F.cross_entropy(out, y).item()
    print(f"{accuracy:.5f} {entropy:.5f} {len(out)} {easy:.5f} {kept} {chosen} {hits:.5f} {torch.cat(scores)[:9].tolist()}")
