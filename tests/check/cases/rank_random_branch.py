"""A coin flip per process picks which head is trained in this step."""
import random
import torch
from torch.utils.data import DataLoader, TensorDataset
from accelerate import Accelerator
from accelerate.utils import set_seed

class TwoHeads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(4, 8)
        self.head_a = torch.nn.Linear(8, 1)
        self.head_b = torch.nn.Linear(8, 1)

    def forward(self, x):
        h = self.body(x).relu()
        return self.head_a(h) if random.random() < 0.5 else self.head_b(h)  # <- random-control-flow

acc = Accelerator()
set_seed(21, device_specific=True)
g = torch.Generator().manual_seed(0)
ds = TensorDataset(torch.randn(64, 4, generator=g), torch.randn(64, 1, generator=g))
net = TwoHeads()
opt = torch.optim.SGD(net.parameters(), lr=0.01)
net, opt, dl = acc.prepare(net, opt, DataLoader(ds, batch_size=4))
for step, (x, y) in enumerate(dl):
    loss = torch.nn.functional.mse_loss(net(x), y)
    acc.backward(loss)
    opt.step()
    opt.zero_grad()
    acc.print(f"step {step} loss {loss.item():.4f}")
