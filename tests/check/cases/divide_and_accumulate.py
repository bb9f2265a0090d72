"""Keeps the hand-made division although accumulate() divides as well."""
import torch
from torch.utils.data import DataLoader, TensorDataset
from accelerate import Accelerator

ACCUM = 4
acc = Accelerator(gradient_accumulation_steps=ACCUM)
torch.manual_seed(0)
net = torch.nn.Linear(2, 1, bias=False)
torch.nn.init.zeros_(net.weight)
opt = torch.optim.SGD(net.parameters(), lr=1.0)
x = torch.ones(8, 2)
net, opt, dl = acc.prepare(net, opt, DataLoader(TensorDataset(x), batch_size=1))
for i, (b,) in enumerate(dl):
    with acc.accumulate(net):
        loss = net(b).mean() / ACCUM  # <- double-loss-scaling
        acc.backward(loss)
        opt.step()
        opt.zero_grad()
w = acc.unwrap_model(net).weight[0, 0].item()
updates = 8 // ACCUM // acc.num_processes
acc.print(f"moved {abs(w):.4f} in {updates} updates, a mean gradient of 1 would move {updates:.4f}")
