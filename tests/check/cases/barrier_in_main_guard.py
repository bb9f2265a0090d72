"""Accelerated by hand; the checkpoint block waits for peers that never come."""
import os
import tempfile
import torch
from torch.utils.data import DataLoader, TensorDataset
from accelerate import Accelerator

acc = Accelerator()
torch.manual_seed(3)
xs = torch.randn(64, 5)
ys = xs.sum(dim=1, keepdim=True)
net = torch.nn.Linear(5, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
net, opt, loader = acc.prepare(net, opt, DataLoader(TensorDataset(xs, ys), batch_size=8))

step = 0
for epoch in range(2):
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(net(x), y)
        acc.backward(loss)
        opt.step()
        opt.zero_grad()
        step += 1
        if acc.is_main_process and step % 3 == 0:
            acc.wait_for_everyone()  # <- collective-in-rank-guard
            torch.save(acc.unwrap_model(net).state_dict(), os.path.join(tempfile.gettempdir(), "case01.pt"))
    acc.print(f"epoch {epoch} loss {loss.item():.4f}")
print(f"rank {acc.process_index} finished after {step} steps")
