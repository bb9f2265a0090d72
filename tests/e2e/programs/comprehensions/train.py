import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
X = torch.randn(53, 6)
dataset = TensorDataset(X, X[:, :3].argmax(1))
loader = DataLoader(dataset, batch_size=8, shuffle=True)
test = DataLoader(dataset, batch_size=8)
model = nn.Linear(6, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


@torch.no_grad()
def predict(batch):
    return model(batch.to(device)).softmax(1)


for epoch in range(2):
    for x, y in loader:
        loss = F.cross_entropy(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        kept = torch.cat([model(x.to(device)).cpu() for x, _ in test])
        targets = torch.cat([y for _, y in test])
        pairs = [(model(x.to(device)).cpu(), y) for x, y in test]
        by_step = {i: model(x.to(device)).argmax(1) for i, (x, _) in enumerate(test)}
        single = [int(p) for x, _ in test for p in model(x.to(device)).argmax(1)]
        flat = [p for x, _ in test for p in model(x.to(device)).argmax(1).tolist()]
        both = [(p.item() == t.item()) for x, y in test for p, t in zip(model(x.to(device)).argmax(1), y)]
        array = np.concatenate([predict(x).cpu().numpy() for x, _ in test])
        lazy = torch.cat(list(model(x.to(device)).cpu() for x, _ in test))
        losses = [F.cross_entropy(model(x.to(device)), y.to(device)) for x, y in test]
        sized = [(F.cross_entropy(model(x.to(device)), y.to(device)), len(x)) for x, y in test]
    accuracy = (kept.argmax(1) == targets).float().mean().item()
    paired = torch.cat([(o.argmax(1) == t).float() for o, t in pairs]).mean().item()
    print(epoch, accuracy, paired, {k: v.tolist() for k, v in by_step.items()}, single[:20], flat[-5:], sum(both), array.sum(0), lazy[:3].tolist())
    print(torch.stack(losses).mean().item(), sum(l.item() * n for l, n in sized) / 53)
torch.save(kept, "kept.pt")
