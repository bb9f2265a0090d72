"""An auxiliary head exists but its output never enters the loss."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from accelerate import Accelerator

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(4, 8)
        self.main = nn.Linear(8, 1)
        self.aux = nn.Linear(8, 3)

    def forward(self, x):
        h = self.stem(x).relu()
        return self.main(h), self.aux(h)

acc = Accelerator()
torch.manual_seed(0)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
net, opt, dl = acc.prepare(net, opt, DataLoader(TensorDataset(torch.randn(32, 4), torch.randn(32, 1)), batch_size=4))
for step, (x, y) in enumerate(dl):
    out, _ = net(x)  # <- unused-parameters
    loss = (out - y).pow(2).mean()
    acc.backward(loss)
    opt.step()
    opt.zero_grad()
    acc.print(f"step {step} loss {loss.item():.4f}")
