import os
import signal
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
BUDGET = 300.0
X = torch.randn(53, 6)
dataset = TensorDataset(X, X[:, :3].argmax(1))
loader = DataLoader(dataset, batch_size=8, shuffle=True)
model = nn.Linear(6, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
stopped = False


def stop(signum, frame):
    global stopped
    stopped = True


def out_of_time(start, budget):
    return time.time() - start > budget


def evaluate():
    with torch.no_grad():
        return sum((model(x).argmax(1) == y).sum().item() for x, y in loader) / len(dataset)


signal.signal(signal.SIGUSR1, stop)
start = time.time()
logged = 0.0
epoch = 0
while time.time() - start < BUDGET:
    for step, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        now = time.time()
        if now - logged > 60:
            print(f"epoch {epoch} step {step} loss {loss.item():.5f}")
            logged = now
        if step == 3 and epoch == 1:
            os.kill(os.getpid(), signal.SIGUSR1)
        if stopped or out_of_time(start, BUDGET):
            print("stopped at", step)
            break
    epoch += 1
    if stopped:
        break
print(f"accuracy {evaluate():.4f} after {epoch} epochs")
