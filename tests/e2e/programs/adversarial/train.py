import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
X = torch.randn(53, 6)
dataset = TensorDataset(X, X[:, :3].argmax(1))
loader = DataLoader(dataset, batch_size=8, shuffle=True)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def fgsm(x, eps, grad):
    return x + eps * grad.sign()


def pgd(x, y, steps=2, alpha=0.5):
    delta = torch.zeros_like(x, requires_grad=True)
    for _ in range(steps):
        loss = F.cross_entropy(model(x + delta), y)
        loss.backward()
        grad = delta.grad.detach()
        delta.data = delta.data + alpha * grad / (grad.norm(dim=1, keepdim=True) + 1e-2)
        delta.grad.zero_()
    return (x + delta).detach()


def saliency(x, y):
    x = x.detach().clone().requires_grad_()
    scores = model(x).gather(1, y[:, None]).squeeze(1)
    scores.backward(torch.ones_like(scores))
    return x.grad.abs().sum(1)


for epoch in range(2):
    total, moved, seen = 0.0, 0.0, 0.0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        x.requires_grad_()
        loss = F.cross_entropy(model(x), y)
        model.zero_grad()
        loss.backward()
        data_grad = x.grad.data
        signed = fgsm(x, 0.1, data_grad)
        raw = x.detach() + 2.0 * x.grad
        grad, = torch.autograd.grad(F.cross_entropy(model(x), y), x)
        pushed = x.detach() + 3.0 * grad
        attacked = pgd(x.detach(), y)
        seen += saliency(x, y).sum().item()
        optimizer.zero_grad()
        loss = sum(F.cross_entropy(model(z), y) for z in (signed.detach(), raw, pushed, attacked))
        loss.backward()
        optimizer.step()
        total += loss.item() * len(x)
        moved += x.grad.abs().sum().item()
    print(f"epoch {epoch} loss {total / len(dataset):.5f} moved {moved:.5f} seen {seen:.5f}")
torch.save(model.state_dict(), "model.pt")
