"""Only the train loader went through prepare(); evaluation gathers all the same."""
import torch
from torch.utils.data import DataLoader, TensorDataset
from accelerate import Accelerator

acc = Accelerator()
torch.manual_seed(6)
x = torch.randn(40, 3)
y = (x.sum(1) > 0).long()
net = torch.nn.Linear(3, 2)
opt = torch.optim.Adam(net.parameters(), lr=0.05)
train = DataLoader(TensorDataset(x, y), batch_size=5, shuffle=True)
test = DataLoader(TensorDataset(x, y), batch_size=8)
net, opt, train = acc.prepare(net, opt, train)
for _ in range(3):
    for a, b in train:
        loss = torch.nn.functional.cross_entropy(net(a), b)
        acc.backward(loss)
        opt.step()
        opt.zero_grad()
hits = torch.zeros(())
with torch.no_grad():
    for a, b in test:
        ok = (net(a.to(acc.device)).argmax(1) == b.to(acc.device)).float()
        hits = hits + acc.gather(ok).sum().cpu()  # <- gather-over-unprepared-loader
acc.print(f"accuracy {hits.item() / len(test.dataset):.3f}")
