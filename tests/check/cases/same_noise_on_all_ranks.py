"""set_seed() once, then noise and timesteps are drawn in the loop."""
import torch
from torch.utils.data import DataLoader, TensorDataset
from accelerate import Accelerator
from accelerate.utils import set_seed

acc = Accelerator()
set_seed(1234)
clean = torch.randn(32, 5)
net = torch.nn.Linear(6, 5)
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
net, opt, dl = acc.prepare(net, opt, DataLoader(TensorDataset(clean), batch_size=4, shuffle=True))
same = 0
for (x,) in dl:
    t = torch.rand(x.size(0), 1, device=x.device)  # <- rank-identical-randomness
    eps = torch.randn_like(x)
    loss = (net(torch.cat([x + t * eps, t], 1)) - eps).pow(2).mean()
    acc.backward(loss)
    opt.step()
    opt.zero_grad()
    all_t = acc.gather(t).reshape(acc.num_processes, -1)
    same += int(acc.num_processes > 1 and bool((all_t == all_t[0]).all()))
acc.print(f"{same} of {len(dl)} steps used identical timesteps on every rank; loss {loss.item():.4f}")
