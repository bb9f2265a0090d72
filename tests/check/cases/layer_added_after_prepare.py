"""A new head is attached to the unwrapped model after prepare()."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from accelerate import Accelerator

class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(4, 8)
        self.head = None

    def forward(self, x):
        h = self.enc(x).tanh()
        return h.mean(1, keepdim=True) if self.head is None else self.head(h)

acc = Accelerator()
torch.manual_seed(0)
net = Tagger()
dl = DataLoader(TensorDataset(torch.randn(40, 4), torch.randn(40, 1)), batch_size=4)
net, dl = acc.prepare(net, dl)
inner = acc.unwrap_model(net)
inner.head = nn.Linear(8, 1).to(acc.device)  # <- graph-edit-after-prepare
opt = acc.prepare(torch.optim.SGD(net.parameters(), lr=0.2))
for x, y in dl:
    loss = nn.functional.mse_loss(net(x), y)
    acc.backward(loss)
    opt.step()
    opt.zero_grad()
stack = acc.gather(inner.head.weight.detach().reshape(1, -1))
acc.print(f"head weights differ between ranks by {(stack.max(0).values - stack.min(0).values).max().item():.5f}")
