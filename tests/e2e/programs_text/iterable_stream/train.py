"""IterableDataset, a max_steps loop with an iterator that is restarted, an lr set by hand."""
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

seed = 17
torch.manual_seed(seed)
device = "cuda:0" if torch.cuda.is_available() else "cpu"
max_iters, warmup_iters, learning_rate, eval_interval, eval_iters = 14, 4, 0.05, 5, 2


class Stream(IterableDataset):
    def __init__(self, n, seed):
        self.n, self.seed = n, seed

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed)
        for _ in range(self.n):
            x = torch.randn(5, generator=g)
            yield x, x.abs().sum(0, keepdim=True)


train_loader = DataLoader(Stream(45, 1), batch_size=10)
val_loader = DataLoader(Stream(23, 2), batch_size=10)
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)


def get_lr(it):
    if it < warmup_iters:
        return learning_rate * (it + 1) / warmup_iters
    return 0.5 * learning_rate * (1 + math.cos(math.pi * it / max_iters))


@torch.no_grad()
def estimate_loss():
    model.eval()
    losses = torch.zeros(eval_iters)
    it = iter(val_loader)
    for k in range(eval_iters):
        X, Y = next(it)
        loss = nn.functional.mse_loss(model(X.to(device)), Y.to(device))
        losses[k] = loss.item()
    model.train()
    return losses.mean()


train_iter = iter(train_loader)
for it in range(max_iters):
    lr = get_lr(it)
    for param_group in optimizer.param_groups:
        param_group["lr"] = lr
    if it % eval_interval == 0:
        print(f"step {it}: val loss {estimate_loss():.4f}")
    try:
        xb, yb = next(train_iter)
    except StopIteration:
        train_iter = iter(train_loader)
        xb, yb = next(train_iter)
    xb, yb = xb.to(device), yb.to(device)
    loss = nn.functional.mse_loss(model(xb), yb)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    lossf = loss.item()
    print(f"iter {it}: loss {lossf:.4f}, lr {lr:.5f}")
